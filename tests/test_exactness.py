"""Law 1: the same input gives the same bytes, whatever the batch, the threads and the instruction set."""

import functools
import json

import numpy as np
import programs
import pytest
from programs import KINDS, LOWEST, NO_FEATURES, run

from dqcodec.base.threads import set_threads
from dqcodec.methods import flow

# argv: threads, then a model file each. Prints the SHA-256 of the stack after a batch of tiles, and after tiles one
# by one, for each model, and what BLAS it ran on.
DIGESTS = """
import hashlib, json, sys
from pathlib import Path
import numpy as np, threadpoolctl
from dqcodec.ans.stack import Stack
from dqcodec.exact import networks
from dqcodec.exact.program import load_program
from dqcodec.base.threads import set_threads

def pixels(count, channels, salt):
    words = np.arange(count * 64 * channels, dtype=np.uint64) + np.uint64(salt)
    words = (words * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    ramp = np.arange(count * 64 * channels) // channels % 64 * 3
    return ((words % np.uint64(40)).astype(np.int64) + ramp).reshape(count, 8, 8, channels) % 256

def convolution(weight_bits, max_input, inputs, kernel):
    # sums of up to 50 bits, all but one of them seen in the output: a rounded sum would change the digest
    words = np.arange(32 * inputs * kernel * kernel, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    weight = (words >> np.uint64(64 - weight_bits)).astype(np.int64) - (1 << weight_bits - 1)
    a = np.arange(3 * 9 * 7 * inputs) * 7919 % (2 * max_input + 1) - max_input
    conv = networks.Conv(weight.reshape(32, inputs, kernel, kernel), np.arange(32), np.ones(32, int), -1e300, 1e300, max_input)
    return conv(a.reshape(3, 9, 7, inputs).astype(np.float32)).astype(np.int64)

set_threads(int(sys.argv[1]))
digests = []
for shape in [(6, 500, 48, 3), (8, 4095, 8, 1), (8, 4095, 48, 3), (14, 4095, 48, 1), (30, 4095, 48, 3)]:
    digests.append(hashlib.sha256(convolution(*shape).tobytes()).hexdigest())
for path in sys.argv[2:]:
    program = load_program(Path(path))
    stack = Stack(pixels(40, 3, 7).astype(np.uint8).tobytes())
    program.codec.push(stack, pixels(11, program.channels, 0))
    digests.append(hashlib.sha256(stack.to_bytes()).hexdigest())
    for tile in pixels(4, program.channels, 1):
        program.codec.push(stack, tile[None])
    digests.append(hashlib.sha256(stack.to_bytes()).hexdigest())
    for tile in reversed(pixels(4, program.channels, 1)):
        assert (program.codec.pop(stack, 1, 8, 8) == tile).all()
    assert (program.codec.pop(stack, 11, 8, 8) == pixels(11, program.channels, 0)).all()
assert "torch" not in sys.modules
print(json.dumps([digests, [info.get("architecture") for info in threadpoolctl.threadpool_info()]]))
"""

# argv: height, width, channels, then a model file and a payload file each. Writes the pixels of all to stdout.
DECODE = """
import sys
from pathlib import Path
from dqcodec.base import threads
from dqcodec.exact.program import load_program
from dqcodec.methods import flow

height, width, channels, *paths = sys.argv[1:]
threads.set_threads(1)
threads.available_cpus = lambda: 1
for model, payload in zip(paths[::2], paths[1::2]):
    shape = int(height), int(width), int(channels)
    (pixels,) = flow.decode(Path(payload).read_bytes(), [shape], load_program(Path(model)))
    sys.stdout.buffer.write(pixels.tobytes())
"""

SETTINGS = {
    "prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "haswell, one BLAS thread": {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"},
    "two BLAS threads": {"OPENBLAS_NUM_THREADS": "2"},
    "plain numpy": {"NPY_DISABLE_CPU_FEATURES": NO_FEATURES},
    "lowest": LOWEST,
}


def digests(threads: int, **variables) -> tuple[list[str], list[str]]:
    paths = [programs.path(kind) for kind in KINDS] + [programs.path("ard", 1, 2)]
    return json.loads(run(DIGESTS, threads, *paths, **variables))


@functools.cache
def expected() -> list[str]:
    return digests(0)[0]


def test_the_digests_differ_from_model_to_model():
    assert len(set(expected())) == 5 + 2 * (len(KINDS) + 1)


@pytest.mark.parametrize(
    "setting, threads", [*((setting, 1) for setting in SETTINGS), ("prescott", 2), ("plain numpy", 2)]
)
def test_instruction_sets_and_threads_change_no_bit(setting, threads):
    ours, blas = digests(threads, **SETTINGS[setting])
    assert ours == expected()
    if setting == "prescott" and "openblas" in str(np.show_config("dicts")):
        assert "Haswell" not in blas  # the variable did what it should


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2, 3, 11])
def test_the_split_over_threads_changes_no_bit_of_the_stack(kind, threads):
    program, x = programs.program(kind), programs.smooth(np.random.default_rng(0), 11, 8, 8)
    stacks = []
    try:
        for count in (0, threads):
            set_threads(count)
            stacks.append(programs.noise_stack())
            program.codec.push(stacks[-1], x)
    finally:
        set_threads(0)
    assert stacks[0].to_bytes() == stacks[1].to_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_layout_of_pixels_changes_no_bit_of_the_stack(kind):
    program, x = programs.program(kind), programs.smooth(np.random.default_rng(1), 3, 8, 16)
    plain = programs.noise_stack()
    program.codec.push(plain, x)
    for other in (np.asfortranarray(x), np.repeat(x, 2, 2)[:, :, ::2], x[:, ::-1].copy()[:, ::-1]):
        stack = programs.noise_stack()
        program.codec.push(stack, other)
        assert stack.to_bytes() == plain.to_bytes()


def test_a_file_made_with_two_threads_decodes_elsewhere_with_one_and_the_lowest_instruction_set(tmp_path):
    pixels = programs.smooth(np.random.default_rng(2), 1, 45, 61)[0].astype(np.uint8)
    paths = []
    set_threads(2)
    try:
        for kind in KINDS:
            paths += [programs.path(kind), tmp_path / kind]
            paths[-1].write_bytes(flow.encode([pixels], programs.program(kind)).data)
    finally:
        set_threads(0)
    assert run(DECODE, *pixels.shape, *paths, **LOWEST) == len(KINDS) * pixels.tobytes()
