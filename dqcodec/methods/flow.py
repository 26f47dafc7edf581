"""Pixels by a trained model: tiles coded by bits-back on one stack whose bottom is a classically coded part.

The image is cut into the model's tiles from the top left; right and bottom edge tiles are smaller, their sides
multiples of the model's `multiple`. What is left over at the right and the bottom, and the first `loan_tiles` tiles,
are coded by methods.classical and lie at the bottom of the stack: the bits that the first pops borrow. The other
tiles follow in batches of one shape, each a 1/loan_tiles part of all tiles before it: loan_tiles is how many coded
tiles have the bits that coding one more borrows on the way.

The payload: varint loan_tiles; varint per classical part, its length, in the order right strip, bottom strip (where
there are such), tiles; then the stack, 32-bit words.
"""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from dqcodec.ans.stack import Stack
from dqcodec.errors import CorruptError, LatentOverflow, StackUnderflow
from dqcodec.exact.program import FlowProgram
from dqcodec.methods import classical
from dqcodec.methods.report import ModelReport
from dqcodec.varint import read_varint, write_varint

_FIRST_LOAN_TILES = 3
_MAX_BATCH = 32

Box = tuple[slice, slice]


def encode(layers: Sequence[np.ndarray], program: FlowProgram) -> tuple[bytes, ModelReport]:
    """The payload for one layer, (H, W, C) uint8 pixels.

    Raises:
        StackUnderflow: the image is too small to pay for the first loan.
        LatentOverflow: its latents leave the range for which the program is proven exact.
    """
    (pixels,) = layers
    strips, tiles = _layout(pixels.shape, program)
    seed = cache(lambda index: classical.encode(pixels[(strips + tiles)[index]], quick=True))
    loan_tiles = _FIRST_LOAN_TILES
    while loan_tiles < len(tiles):
        try:
            return _encode(pixels, program, tiles, loan_tiles, [seed(i) for i in range(len(strips) + loan_tiles)])
        except StackUnderflow:
            loan_tiles += 1 + loan_tiles // 4
    raise StackUnderflow("the image is too small for the model's first loan")


def decode(payload: bytes, shapes: Sequence[tuple[int, int, int]], program: FlowProgram) -> list[np.ndarray]:
    """The layer, (H, W, C) uint8 pixels, of a payload.

    Raises:
        CorruptError: the payload is damaged, or was not made by this program.
    """
    (shape,) = shapes
    strips, tiles = _layout(shape, program)
    loan_tiles, position = read_varint(payload, 0)
    if not 0 < loan_tiles < len(tiles):
        raise CorruptError("damaged flow payload")
    classical_boxes = strips + tiles[:loan_tiles]
    lengths = []
    for _ in classical_boxes:
        length, position = read_varint(payload, position)
        lengths.append(length)
    stack = Stack.from_bytes(payload[position:])
    pixels = np.zeros(shape, np.uint8)
    try:
        for batch in reversed(list(_batches(pixels, tiles, loan_tiles))):
            height, width = pixels[batch[0]].shape[:2]
            values = program.codec.pop(stack, len(batch), height, width)
            if values.min() < 0 or values.max() > 255:
                raise CorruptError("a decoded pixel is out of range")
            for box, value in zip(batch, values):
                pixels[box] = value
    except StackUnderflow as error:
        raise CorruptError("the bit stack ran out") from error
    seed = stack.seed(sum(lengths))
    for box, length in zip(classical_boxes, lengths):
        pixels[box] = classical.decode(seed[:length], pixels[box].shape)
        seed = seed[length:]
    return [pixels]


def fits(shape: tuple[int, int, int], program: FlowProgram) -> bool:
    return shape[2] == program.channels and program.bits == 8 and min(shape[:2]) >= program.multiple


def _layout(shape: tuple[int, int, int], program: FlowProgram) -> tuple[list[Box], list[Box]]:
    """(strips that no tile covers, tiles ordered so that equal shapes are neighbours)."""
    height, width = shape[:2]
    core_height, core_width = height - height % program.multiple, width - width % program.multiple
    strips = []
    if core_width < width:
        strips.append((slice(0, height), slice(core_width, width)))
    if core_height < height:
        strips.append((slice(core_height, height), slice(0, core_width)))
    tiles = [
        (slice(top, min(top + program.tile, core_height)), slice(left, min(left + program.tile, core_width)))
        for top in range(0, core_height, program.tile)
        for left in range(0, core_width, program.tile)
    ]
    return strips, sorted(tiles, key=lambda box: tuple(s.start - s.stop for s in box))


def _batches(pixels: np.ndarray, tiles: list[Box], loan_tiles: int) -> Iterator[list[Box]]:
    """The tiles after the classical ones, in batches."""
    done = loan_tiles
    while done < len(tiles):
        size = min(_MAX_BATCH, done // loan_tiles)
        shape = pixels[tiles[done]].shape
        batch = [box for box in tiles[done : done + size] if pixels[box].shape == shape]
        yield batch
        done += len(batch)


def _encode(
    pixels: np.ndarray, program: FlowProgram, tiles: list[Box], loan_tiles: int, parts: list[bytes]
) -> tuple[bytes, ModelReport]:
    """encode with given loan_tiles and classical parts."""
    stack = Stack(b"".join(parts))
    seeded_bits, flow_bits = stack.bits, 0.0
    for batch in _batches(pixels, tiles, loan_tiles):
        flow_bits += program.codec.push(stack, np.stack([pixels[box] for box in batch]).astype(np.int64))
    payload = write_varint(loan_tiles) + b"".join(write_varint(len(part)) for part in parts) + stack.to_bytes()
    loan_bits = sum(_ideal_bits(pixels[box][None], program) for box in tiles[:loan_tiles])
    tile_dims = sum(pixels[box].size for box in tiles)
    vi_bits = (flow_bits + loan_bits) / tile_dims * pixels.size
    seed_bits = 8 * sum(map(len, parts))
    return payload, ModelReport(
        layer_bits=(vi_bits,),
        seed_bits=seed_bits,
        initial_bits=seed_bits + flow_bits - vi_bits,
        grid_bits=stack.bits - seeded_bits - flow_bits,
    )


def _ideal_bits(tiles: np.ndarray, program: FlowProgram) -> float:
    """The model's bound on tiles (B, H, W, C), bits; on a stack of noise, as no code is kept."""
    noise = np.random.Generator(np.random.PCG64(0)).bytes(8 * tiles.size)
    return program.codec.push(Stack(noise), tiles.astype(np.int64))


def sample_bits(parts: Sequence[np.ndarray], program: FlowProgram) -> float:
    """The model's bound on parts of layers, by their full tiles; infinite where the program cannot code them."""
    tiles: dict[tuple[int, ...], list[np.ndarray]] = {}
    for part in parts:
        for box in _layout(part.shape, program)[1]:
            tiles.setdefault(part[box].shape, []).append(part[box])
    try:
        bits = sum(_ideal_bits(np.stack(alike), program) for alike in tiles.values())
    except LatentOverflow:
        return float("inf")
    return bits * sum(part.size for part in parts) / sum(tile.size for alike in tiles.values() for tile in alike)
