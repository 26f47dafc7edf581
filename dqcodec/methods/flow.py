"""Layers by a trained flow: tiles coded by bits-back on one stack whose bottom is a part coded by mixing.

Each layer is cut into the model's tiles from its top left; right and bottom edge tiles are smaller, their sides multiples of
the model's `multiple`. The tiles of all layers form one list, the largest first, else layer after layer, row by row. What is
left over at the right and the bottom of each layer, and then the first `loan_tiles` tiles, are coded together by
methods.mixing, and lie at the bottom of the stack: the bits that the first pops borrow. The other tiles follow in batches of
one shape, each a 1/loan_tiles part of all tiles before it: loan_tiles is how many coded tiles have the bits that coding
one more borrows on the way.

The payload: varint particles, see ans/bits_back.py; varint loan_tiles; varint, the length of the part at the bottom; the stack,
32-bit words.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from dqcodec.ans.bits_back import BitsBack, CoupledBitsBack
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, LatentOverflow, ParticlesError, StackUnderflow, SymbolError
from dqcodec.base.varint import read_varint, write_varint
from dqcodec.exact.flow.program import FlowProgram
from dqcodec.methods import mixing
from dqcodec.methods.report import ModelReport

_FIRST_LOAN_TILES = 3
_MAX_BATCH_DIMS = 3 << 17

Box = tuple[int, slice, slice]  # of a layer, by its number


def encode(layers: Sequence[np.ndarray], program: FlowProgram, particles: int = 1) -> tuple[bytes, ModelReport]:
    """The payload for layers (H, W, C), uint8, at the vi bound, or at the importance-weighted one of several particles.

    Raises:
        ParticlesError: see FlowProgram.coupled.
        StackUnderflow: the layers are too small to pay for the first loan.
        LatentOverflow: their latents leave the range for which the program is proven exact.
    """
    coder = program.coupled(particles)
    strips, tiles = _layout([layer.shape[:2] for layer in layers], program)
    loan_tiles = _FIRST_LOAN_TILES
    while loan_tiles < len(tiles):
        seed, _ = mixing.encode([_part(layers, box) for box in strips + tiles[:loan_tiles]])
        stack = Stack(seed)
        seeded_bits, bits = stack.bits, np.zeros(len(tiles))
        try:
            for batch in _batches(tiles, loan_tiles, program.channels):
                bits[batch] = coder.push(stack, _stacked(layers, tiles[batch]))
        except StackUnderflow:
            loan_tiles += 1 + loan_tiles // 8
            continue
        break
    else:
        raise StackUnderflow("the image is too small for the model's first loan")
    payload = b"".join(map(write_varint, (particles, loan_tiles, len(seed)))) + stack.to_bytes()
    flow_bits = float(bits.sum())
    bits[:loan_tiles] = _ideal_bits(layers, tiles[:loan_tiles], coder)
    layer_bits, dims = np.zeros((2, len(layers)))
    np.add.at(layer_bits, [number for number, *_ in tiles], bits)
    np.add.at(dims, [number for number, *_ in tiles], [_part(layers, box).size for box in tiles])
    layer_bits *= [layer.size for layer in layers] / dims  # strips count as the tiles beside them
    return payload, ModelReport(
        layer_bits=tuple(layer_bits.tolist()),
        seed_bits=8 * len(seed),
        initial_bits=8 * len(seed) + flow_bits - float(layer_bits.sum()),
        grid_bits=stack.bits - seeded_bits - flow_bits,
        particles=particles,
    )


def decode(payload: bytes, shapes: Sequence[tuple[int, int, int]], program: FlowProgram) -> list[np.ndarray]:
    """The layers (H, W, C), uint8, of a payload.

    Raises:
        CorruptError: the payload is damaged, or was not made by this program.
    """
    strips, tiles = _layout([shape[:2] for shape in shapes], program)
    particles, position = read_varint(payload, 0)
    loan_tiles, position = read_varint(payload, position)
    seed_bytes, position = read_varint(payload, position)
    if not 0 < loan_tiles < len(tiles):
        raise CorruptError("damaged flow payload")
    try:
        coder = program.coupled(particles)
    except ParticlesError as error:
        raise CorruptError(f"damaged flow payload ({error})") from error
    stack = Stack.from_bytes(payload[position:])
    layers = [np.zeros(shape, np.uint8) for shape in shapes]
    try:
        for batch in reversed(list(_batches(tiles, loan_tiles, program.channels))):
            boxes = tiles[batch]
            values = coder.pop(stack, len(boxes), *_sides(boxes[0]))
            if values.min() < 0 or values.max() >= 1 << program.bits:
                raise CorruptError("a decoded pixel is out of range")
            for box, value in zip(boxes, values):
                _part(layers, box)[:] = value
    except (LatentOverflow, StackUnderflow, SymbolError) as error:
        raise CorruptError(f"damaged flow payload ({error})") from error
    parts = [_part(layers, box) for box in strips + tiles[:loan_tiles]]
    for part, value in zip(parts, mixing.decode(stack.seed(seed_bytes), [part.shape for part in parts])):
        part[:] = value
    return layers


def fits(shape: tuple[int, int, int], program: FlowProgram) -> bool:
    return shape[2] == program.channels and min(shape[:2]) >= program.multiple


def _layout(sizes: Sequence[tuple[int, int]], program: FlowProgram) -> tuple[list[Box], list[Box]]:
    """(strips that no tile covers, tiles ordered so that equal shapes are neighbours) of layers (height, width)."""
    strips, tiles = [], []
    for number, (height, width) in enumerate(sizes):
        core_height, core_width = height - height % program.multiple, width - width % program.multiple
        if core_width < width:
            strips.append((number, slice(0, height), slice(core_width, width)))
        if core_height < height:
            strips.append((number, slice(core_height, height), slice(0, core_width)))
        tiles += [
            (
                number,
                slice(top, min(top + program.tile, core_height)),
                slice(left, min(left + program.tile, core_width)),
            )
            for top in range(0, core_height, program.tile)
            for left in range(0, core_width, program.tile)
        ]
    return strips, sorted(tiles, key=_sides, reverse=True)


def _sides(box: Box) -> tuple[int, int]:
    _, rows, columns = box
    return rows.stop - rows.start, columns.stop - columns.start


def _part(layers: Sequence[np.ndarray], box: Box) -> np.ndarray:
    number, rows, columns = box
    return layers[number][rows, columns]


def _stacked(layers: Sequence[np.ndarray], boxes: Sequence[Box]) -> np.ndarray:
    """Tiles of one shape, (B, H, W, C) int64."""
    return np.stack([_part(layers, box) for box in boxes]).astype(np.int64)


def _batches(tiles: Sequence[Box], loan_tiles: int, channels: int) -> Iterator[slice]:
    """The tiles after the loan, in batches."""
    done = loan_tiles
    while done < len(tiles):
        height, width = shape = _sides(tiles[done])
        size = min(max(1, _MAX_BATCH_DIMS // (height * width * channels)), done // loan_tiles)
        alike = sum(_sides(box) == shape for box in tiles[done : done + size])
        yield slice(done, done + alike)
        done += alike


def _ideal_bits(layers: Sequence[np.ndarray], tiles: Sequence[Box], coder: BitsBack | CoupledBitsBack) -> np.ndarray:
    """The model's bound on each tile, bits; on a stack of noise, as no code is kept."""
    bits = []
    for _, boxes in groupby(tiles, _sides):
        x = _stacked(layers, list(boxes))
        bits.append(coder.push(Stack(np.random.Generator(np.random.PCG64(0)).bytes(8 * x.size + 64)), x))
    return np.concatenate(bits)


def sample_bits(parts: Sequence[np.ndarray], program: FlowProgram) -> float:
    """The model's vi bound on parts of layers, by their full tiles; infinite where the program cannot code them."""
    _, tiles = _layout([part.shape[:2] for part in parts], program)
    try:
        bits = float(_ideal_bits(parts, tiles, program.codec).sum())
    except LatentOverflow:
        return float("inf")
    return bits * sum(part.size for part in parts) / sum(_part(parts, box).size for box in tiles)
