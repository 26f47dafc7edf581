"""Networks that learn while they code: by the gradients of the loss, the same in encoder and decoder, within exact bounds."""

import numpy as np
import programs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import LEARNING, cut, noise_stack, write
from safetensors.numpy import save

from dqcodec.base.errors import ModelError
from dqcodec.base.threads import set_threads
from dqcodec.exact.autoregressive import walk
from dqcodec.exact.autoregressive.learning import LearningLinears
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.program import load_program
from dqcodec.export.restore import restore
from dqcodec.frozen.autoregressive import GRADIENT_GRID, NET_GRADIENT_BOUND

few = settings(max_examples=4)
every_channels = pytest.mark.parametrize("channels", [1, 3])


def program_of(channels: int = 3, learning: int = 4) -> AutoregressiveProgram:
    """A program; the last `learning` layers of its network learn."""
    rules = [list(rule) for rule in programs.program(LEARNING, channels).description.learning[:learning]]
    return load_program(write(programs.described(LEARNING, channels, learning=rules)))


def image(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return programs.smooth(np.random.default_rng(seed), 1, height, width, channels)[0].astype(np.uint8)


@every_channels
@pytest.mark.parametrize("learning", [1, 2, 3, 4])
def test_pop_undoes_push(channels, learning):
    program, tiles = program_of(channels, learning), cut(image(24, 32, channels), (16, 20))
    stack = noise_stack()
    before = stack.to_bytes()
    program.push(stack, program.slots(tiles))
    popped = program.pop(stack, [tile.shape[:2] for tile in tiles])
    assert all(map(np.array_equal, popped, tiles)) and stack.to_bytes() == before


@few
@given(st.integers(0, 99))
def test_any_image_codes(seed):
    noise = np.random.default_rng(seed).integers(0, 256, (30, 21, 3)).astype(np.uint8)
    stack = noise_stack(seed)
    program_of().push(stack, program_of().slots([noise]))
    assert np.array_equal(program_of().pop(stack, [(30, 21)])[0], noise)


@every_channels
def test_the_more_layers_learn_the_better_a_program_of_random_weights_gets_at_an_image(channels):
    bits = [program_of(channels, learning).slots([image(48, 64, channels)]).bits for learning in (0, 1, 4)]
    assert bits[0] > bits[1] > bits[2]


@every_channels
def test_the_gradients_of_a_program_are_those_of_its_twin_in_real_numbers(channels):
    """Up to rounding: of activations and weights, and of gradients to 1/32 of the usual size."""
    program, pixels = program_of(channels), image(15, 16, channels)  # too few for a step
    walked = walk.Walk(program, [pixels.shape[:2]])
    walked.enter([pixels])
    for front in walked.learning_fronts():
        walked.code(walked.fronts.places(front))
    sums, start = walked._gradients[0].net, 0
    model, twins = restore(program)
    model.density.log_mass(torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float()).sum().neg().backward()
    real = {twin.name: twin for twin in twins}
    names = ["net.heads", "net.0.2", "net.0.1", "net.in"]
    for name, rule in zip(names, program.description.learning, strict=True):
        twin, width = real[name], program.net.heads.inputs
        rows = walked.model.net.heads.matrices.shape[1] if name == "net.heads" else twin.exact.inputs + 1
        ours = sums[start : start + rows * twin.exact.outputs].reshape(rows, -1)
        start += ours.size
        theirs = twin.real.weight.grad.numpy().astype(np.float64).T[: width if name == "net.heads" else None]
        unit = GRADIENT_GRID * 2.0 ** (rule.gradient_bits - twin.grid_out + twin.grid_in)
        assert np.corrcoef(ours[: len(theirs)].ravel(), theirs.ravel())[0, 1] > 0.97
        assert np.abs(ours[: len(theirs)] / unit).sum() == pytest.approx(np.abs(theirs).sum(), rel=0.2)
    assert start == len(sums)


@every_channels
def test_the_number_of_threads_changes_nothing(channels):
    tiles, slots = cut(image(200, 64, channels), (8, 64)), []
    for threads in (1, 3):
        set_threads(threads)
        try:
            slots.append(program_of(channels).slots(tiles).slots)
        finally:
            set_threads(0)
    assert np.array_equal(*slots)


def test_every_image_is_coded_by_the_program_as_it_was_loaded():
    program = program_of()
    first = program.slots([image(20, 30)]).slots
    program.slots([image(20, 30, seed=1)])
    assert np.array_equal(program.slots([image(20, 30)]).slots, first)


def test_a_layer_that_passes_gradients_on_stays_as_it_is_where_their_sums_would_not_be_exact():
    bounds = np.array([1.0, 1.0])
    for passed, moves in [(0.0, True), (float(NET_GRADIENT_BOUND), False)]:
        shifts = np.array([[1, 20]])
        matrix = np.full((1, 2, 2), [2.0**-1, 2.0**-20], np.float32)
        layer = LearningLinears(matrix.copy(), shifts, np.full((2, 2), 1.0), bounds, passed)
        layer.step(np.full((1, 2, 2), -1.0))
        assert np.array_equal(layer.matrices, matrix) != moves


@pytest.mark.parametrize(
    "learning",
    [
        3,
        None,
        "text",
        [3],
        [[1, 2]],
        [[1, 2, 3, 4]],
        [[1, 2, 33]],
        [[-33, 2, 3]],
        [[1, 2, 3.0]],
        [[1, 2, True]],
        [[0, 9, 6]] * 5,
    ],
    ids=str,
)
def test_wrong_learning_rules_are_a_model_error(learning):
    with pytest.raises(ModelError):
        load_program(write(programs.described(LEARNING, learning=learning)))


@pytest.mark.parametrize("name, learning", [("net.heads", 2), ("net.0.2", 3), ("net.0.1", 4), ("net.out.0", 1)])
def test_a_network_whose_gradients_are_not_exact_is_a_model_error(name, learning):
    """This holds for gradients that pass through a layer; the last layer that learns may have any grids."""
    tensors = programs.tensors(LEARNING, 1)
    tensors[f"{name}.shift"][:] = [40, *[6] * (len(tensors[f"{name}.shift"]) - 1)]
    tensors[f"{name}.weight"][:] = 1
    rules = [list(rule) for rule in programs.program(LEARNING, 1).description.learning]
    for count in (learning - 1, learning):
        metadata = programs.metadata(programs.described(LEARNING, 1, learning=rules[:count]))
        path = write(save(tensors, metadata=metadata))
        if count == learning:
            with pytest.raises(ModelError, match="gradients"):
                load_program(path)
        else:
            load_program(path)
