"""Bits and speed of a craystack message as the engine of integer programs, beside those of the stack of .dqc files.

    PYTHONPATH=CRAYSTACK python benchmarks/engines.py FILE.png [--model NAME] [--tiles N] [--json RESULT.json]

CRAYSTACK is a checkout of github.com/j-towns/craystack, which needs numpy, scipy and autograd. The first test pushes a
million symbols (50 000 on one lane) below sizes with evenly distributed logarithms. The second codes N tiles of 32 x 32
of the image with a flow. Everything is popped again and compared.
"""

import time
from collections.abc import Callable
from pathlib import Path

import craystack
import numpy as np
import script

from dqcodec.ans.craystack import CraystackStack, Message, model_codec
from dqcodec.ans.protocol import BitStack
from dqcodec.ans.stack import Stack
from dqcodec.bench.machine import machine
from dqcodec.codec import zoo
from dqcodec.exact.flow.program import FlowProgram

LANES = (1, 64, 1024, 4096)
SYMBOLS = 1_000_000
SIDE = 32


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="cifar10-ard")
    parser.add_argument("--tiles", type=int, default=32)
    arguments = parser.parse_args()
    tiles = script.tiles_of(script.read_rgb(arguments.file), SIDE)[: arguments.tiles].astype(np.int64)
    result = {"machine": machine(), "image": arguments.file.name, "symbols": symbols()}
    result[arguments.model] = {"tiles": len(tiles)} | flow(zoo.load(arguments.model), tiles)
    script.publish(result, arguments.json)


def message(lanes: int, words: int) -> Message:
    """A random craystack message with this number of lanes, and of words below them."""
    rng = np.random.default_rng(0)
    head = rng.integers(1 << 31, 1 << 63, lanes, np.uint64)
    return head, (rng.integers(0, 1 << 32, words, np.uint32), ())


def message_bits(message: Message) -> float:
    """The information in a message, bits."""
    head, tail = message
    words = len(craystack.rans.flatten(message)) - 2 * head.size
    return 32 * words + float(np.log2(head).sum())


def stack_bits(stack: BitStack) -> float:
    """The size of a stack, bits."""
    return message_bits(stack.message) if isinstance(stack, CraystackStack) else stack.bits


def timed(function: Callable, *arguments) -> tuple[object, float]:
    """(the function's result, seconds)."""
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def symbols() -> dict:
    """For each engine: bits of a symbol beyond the logarithm of its size, and millions of symbols per second."""
    rng = np.random.default_rng(0)
    sizes = np.exp2(rng.uniform(0, 23, SYMBOLS)).astype(np.int64)
    values = (np.arange(SYMBOLS) * 0.6180339887498949 % 1 * sizes).astype(np.int64)  # not random
    result = {}
    for name, stack, count in [("stack", Stack(bytes(8)), SYMBOLS)] + [
        (f"craystack, lanes: {lanes}", CraystackStack(message(lanes, 2)), SYMBOLS if lanes > 1 else SYMBOLS // 20)
        for lanes in LANES
    ]:
        before, ideal_bits = stack_bits(stack), np.log2(sizes[:count]).sum()
        _, push_seconds = timed(stack.push, values[:count], sizes[:count])
        overhead = (stack_bits(stack) - before - ideal_bits) / count
        popped, pop_seconds = timed(stack.pop, sizes[:count])
        if not np.array_equal(popped, values[:count]):
            raise SystemExit(f"{name}: the decoded symbols differ")
        result[name] = {
            "overhead_bits_a_symbol": float(f"{overhead:.2g}"),
            "push_m_symbols_s": round(count / push_seconds / 1e6, 3),
            "pop_m_symbols_s": round(count / pop_seconds / 1e6, 3),
        }
    return result


def flow(program: FlowProgram, tiles: np.ndarray) -> dict:
    """For each engine: bits per dimension, and seconds in both directions."""
    shape = tiles.shape[:3]
    stack = Stack(np.random.default_rng(0).bytes(8 * tiles.size))
    before = stack.bits
    _, push_seconds = timed(program.codec.push, stack, tiles)
    bits = stack.bits - before
    popped, pop_seconds = timed(program.codec.pop, stack, *shape)
    result = {"stack": checked(tiles, popped, bits, push_seconds, pop_seconds)}
    codec = model_codec(program, shape)
    for lanes in LANES[1:]:
        given = message(lanes, 2 * tiles.size)
        (pushed,), push_seconds = timed(codec.push, given, tiles)
        (_, popped), pop_seconds = timed(codec.pop, pushed)
        bits = message_bits(pushed) - message_bits(given)
        result[f"craystack, lanes: {lanes}"] = checked(tiles, popped, bits, push_seconds, pop_seconds)
    return result


def checked(tiles: np.ndarray, popped: np.ndarray, bits: float, push_seconds: float, pop_seconds: float) -> dict:
    """The result of one engine.

    Raises:
        SystemExit: the decoded tiles differ.
    """
    if not np.array_equal(popped, tiles):
        raise SystemExit("the decoded tiles differ")
    seconds = {"push_seconds": round(push_seconds, 2), "pop_seconds": round(pop_seconds, 2)}
    return {"bpd": round(bits / tiles.size, 4)} | seconds


if __name__ == "__main__":
    main()
