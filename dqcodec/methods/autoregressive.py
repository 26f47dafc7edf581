"""Pixels by an autoregressive model: the image is cut into tiles from the top left, which are told nothing of each other.

The model says how large a tile is. Rows of tiles are taken together in groups, each group on a stack of its own: its tiles
are coded side by side, which makes long vectors of it, and it bounds the memory. The payload, per group: varint s;
varint, the length of its stack; the stack, 32-bit words, whose seed is s zero bytes: what the first pops borrow.
"""

import numpy as np

from dqcodec.ans.stack import Stack
from dqcodec.errors import CorruptError, StackUnderflow
from dqcodec.exact.autoregressive import AutoregressiveProgram
from dqcodec.exact.context import SLOPE
from dqcodec.exact.threads import single_thread
from dqcodec.methods.report import ModelReport
from dqcodec.varint import read_varint, write_varint

_FRONT = 512  # pixels in an average front of a group, about
_MAX_GROUP_PIXELS = 1 << 20  # about 130 bytes each


def fits(shape: tuple[int, int, int], program: AutoregressiveProgram) -> bool:
    return shape[2] == program.channels and program.bits == 8


def encode(pixels: np.ndarray, program: AutoregressiveProgram) -> tuple[bytes, ModelReport]:
    """The payload for (H, W, C) uint8 pixels."""
    tile, groups = _layout(pixels.shape[:2], program)
    with single_thread():
        coded = [_encode_group(pixels[rows], program, tile) for rows in groups]
    payload = b"".join(write_varint(seed_bytes) + write_varint(len(stack)) + stack for seed_bytes, stack, _ in coded)
    ideal_bits, seed_bits = sum(bits for *_, bits in coded), 8 * sum(seed_bytes for seed_bytes, *_ in coded)
    stack_bits = 8 * sum(len(stack) for _, stack, _ in coded)
    return payload, ModelReport(
        vi_bpd=ideal_bits / pixels.size,
        coded_bpd=8 * len(payload) / pixels.size,
        seed_bits=seed_bits,
        initial_bits=float(seed_bits + 8 * len(payload) - stack_bits),
        grid_bits=stack_bits - seed_bits - ideal_bits,
    )


def decode(payload: bytes, shape: tuple[int, int, int], program: AutoregressiveProgram) -> np.ndarray:
    """The (H, W, C) uint8 pixels of a payload.

    Raises:
        CorruptError: the payload is damaged, or was not made by this program.
    """
    tile, groups = _layout(shape[:2], program)
    pixels, position = np.empty(shape, np.uint8), 0
    with single_thread():
        for rows in groups:
            seed_bytes, position = read_varint(payload, position)
            length, position = read_varint(payload, position)
            _decode_group(pixels[rows], payload[position : position + length], seed_bytes, tile, program)
            position += length
    if position != len(payload):
        raise CorruptError("damaged payload")
    return pixels


def _layout(shape: tuple[int, int], program: AutoregressiveProgram) -> tuple[tuple[int, int], list[slice]]:
    """((rows, columns) of a tile, rows of each group): a part of the format."""
    height, width = shape
    rows, columns = (min(side, tile_side) for side, tile_side in zip(shape, program.tile))
    rows = max(1, min(rows, _MAX_GROUP_PIXELS // width))
    front = rows * width / (columns + SLOPE * (rows - 1))  # the average one of one row of tiles
    group = rows * max(1, min(round(_FRONT / front), _MAX_GROUP_PIXELS // (rows * width)))
    return (rows, columns), [slice(top, min(top + group, height)) for top in range(0, height, group)]


def _encode_group(pixels: np.ndarray, program: AutoregressiveProgram, tile: tuple[int, int]) -> tuple[int, bytes, float]:
    """(bytes of the seed, the stack, what the model says they take, bits)."""
    slots, seed_bytes = program.slots([pixels[box] for box in _boxes(pixels.shape[:2], tile)]), 0
    while True:
        stack = Stack(bytes(seed_bytes))
        try:
            program.push(stack, slots)
            return seed_bytes, stack.to_bytes(), slots.bits
        except StackUnderflow:
            seed_bytes += max(4, seed_bytes // 8 * 4)


def _decode_group(
    out: np.ndarray, data: bytes, seed_bytes: int, tile: tuple[int, int], program: AutoregressiveProgram
) -> None:
    """Set the group's pixels."""
    stack, parts = Stack.from_bytes(data), [out[box] for box in _boxes(out.shape[:2], tile)]
    try:
        for part, pixels in zip(parts, program.pop(stack, [part.shape[:2] for part in parts])):
            part[:] = pixels
    except StackUnderflow as error:
        raise CorruptError("the bit stack ran out") from error
    if any(stack.seed(seed_bytes)):
        raise CorruptError("the bit stack does not end at its seed")


def _boxes(shape: tuple[int, int], tile: tuple[int, int]) -> list[tuple[slice, slice]]:
    """The tiles of an image, row by row."""
    (height, width), (rows, columns) = shape, tile
    corners = [(top, left) for top in range(0, height, rows) for left in range(0, width, columns)]
    return [(slice(top, min(top + rows, height)), slice(left, min(left + columns, width))) for top, left in corners]


def sample_bpd(pixels: np.ndarray, program: AutoregressiveProgram) -> float:
    """The model's rate on pixels (H, W, C), squares side by side, bits per dimension."""
    side = min(pixels.shape[:2])
    with single_thread():
        return program.slots([pixels[box] for box in _boxes(pixels.shape[:2], (side, side))]).bits / pixels.size
