"""Layers by an autoregressive model: each is cut into tiles from its top left, which are told nothing of each other.

The model says how large a tile is. The tiles of all layers, layer after layer, row by row, are coded together, on stacks of at
most 2^20 pixels, which bounds the memory: a stack takes tiles as long as they fit, and at least one. What the model learns on a
stack it knows for the rest of it. The payload, per stack: varint s; varint, the length of the stack; the stack, 32-bit words,
whose seed is s zero bytes: what the first pops borrow.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, StackUnderflow, SymbolError
from dqcodec.base.threads import single_thread
from dqcodec.base.varint import read_varint, write_varint
from dqcodec.exact.autoregressive.program import AutoregressiveProgram, Slots
from dqcodec.methods.report import ModelReport

_MAX_STACK_PIXELS = 1 << 20  # about 100 bytes each

Box = tuple[int, slice, slice]  # of a layer, by its number


def fits(shape: tuple[int, int, int], program: AutoregressiveProgram) -> bool:
    return shape[2] == program.channels


def encode(layers: Sequence[np.ndarray], program: AutoregressiveProgram) -> tuple[bytes, ModelReport]:
    """The payload for layers (H, W, C), uint8, of samples of the program's bits."""
    coded, layer_bits = [], np.zeros(len(layers))
    with single_thread():
        for boxes in stacks([layer.shape[:2] for layer in layers], program):
            slots = program.slots([layers[number][tuple(box)] for number, *box in boxes])
            np.add.at(layer_bits, [number for number, *_ in boxes], slots.tile_bits)
            coded.append(_push(slots, program))
    payload = b"".join(write_varint(seed_bytes) + write_varint(len(stack)) + stack for seed_bytes, stack in coded)
    seed_bits, stack_bits = (8 * sum(sizes) for sizes in zip(*((seed_bytes, len(stack)) for seed_bytes, stack in coded)))
    return payload, ModelReport(
        layer_bits=tuple(layer_bits.tolist()),
        seed_bits=seed_bits,
        initial_bits=float(seed_bits + 8 * len(payload) - stack_bits),
        grid_bits=stack_bits - seed_bits - float(layer_bits.sum()),
    )


def decode(payload: bytes, shapes: Sequence[tuple[int, int, int]], program: AutoregressiveProgram) -> list[np.ndarray]:
    """The layers (H, W, C), uint8, of a payload.

    Raises:
        CorruptError: the payload is damaged, or was not made by this program.
    """
    layers, position = [np.empty(shape, np.uint8) for shape in shapes], 0
    with single_thread():
        for boxes in stacks([shape[:2] for shape in shapes], program):
            seed_bytes, position = read_varint(payload, position)
            length, position = read_varint(payload, position)
            parts = [layers[number][tuple(box)] for number, *box in boxes]
            _pop(parts, payload[position : position + length], seed_bytes, program)
            position += length
    if position != len(payload):
        raise CorruptError("damaged payload")
    return layers


def sample_bits(parts: Sequence[np.ndarray], program: AutoregressiveProgram) -> float:
    """What the model takes for parts of layers."""
    with single_thread():
        return program.slots(parts).bits


def stacks(shapes: Sequence[tuple[int, int]], program: AutoregressiveProgram) -> Iterator[list[Box]]:
    """The tiles of each stack, as boxes of layers: a part of the format."""
    tiles, pixels = [], 0
    for number, shape in enumerate(shapes):
        rows, columns = program.tile
        for box in _boxes(shape, (max(1, min(rows, _MAX_STACK_PIXELS // columns)), columns)):
            area = (box[0].stop - box[0].start) * (box[1].stop - box[1].start)
            if tiles and pixels + area > _MAX_STACK_PIXELS:
                yield tiles
                tiles, pixels = [], 0
            tiles.append((number, *box))
            pixels += area
    yield tiles


def _boxes(shape: tuple[int, int], tile: tuple[int, int]) -> list[tuple[slice, slice]]:
    """The tiles of a layer, row by row."""
    (height, width), (rows, columns) = shape, tile
    corners = [(top, left) for top in range(0, height, rows) for left in range(0, width, columns)]
    return [(slice(top, min(top + rows, height)), slice(left, min(left + columns, width))) for top, left in corners]


def _push(slots: Slots, program: AutoregressiveProgram) -> tuple[int, bytes]:
    """(bytes of the seed, the stack)"""
    seed_bytes = 0
    while True:
        stack = Stack(bytes(seed_bytes))
        try:
            program.push(stack, slots)
            return seed_bytes, stack.to_bytes()
        except StackUnderflow:
            seed_bytes += max(4, seed_bytes // 8 * 4)


def _pop(parts: Sequence[np.ndarray], data: bytes, seed_bytes: int, program: AutoregressiveProgram) -> None:
    """Set the tiles of a stack."""
    stack = Stack.from_bytes(data)
    try:
        for part, pixels in zip(parts, program.pop(stack, [part.shape[:2] for part in parts])):
            part[:] = pixels
    except (StackUnderflow, SymbolError) as error:
        raise CorruptError(f"the bit stack is damaged ({error})") from error
    if any(stack.seed(seed_bytes)):
        raise CorruptError("the bit stack does not end at its seed")
