"""The method flow: layers by a trained flow and bits-back coding.

Each layer is cut from its top left into the model's tiles. Tiles at the right and bottom edges are smaller; their sides
are multiples of the model's `multiple`. Strips narrower than that remain. The tiles of all layers form one list: the
largest first, tiles of one size layer after layer, row by row.

Bits-back coding borrows bits from the stack before it pays them back. So the strips and the first `loan_tiles` tiles
are coded by methods/trained_mixing.py, and lie at the bottom of the stack, as its seed. The other tiles follow in
batches of one shape. A batch has at most 1/loan_tiles of the number of tiles before it: `loan_tiles` coded tiles hold
the bits that one more tile borrows.

The payload: varint 0; varint loan_tiles; varint, the length of the seed in bytes; the stack, 32-bit words. Earlier
versions wrote the number of particles in place of 0, see ans/particles.py, and a seed by methods/mixing.py.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.ans.bits_back import BitsBack
from dqcodec.ans.particles import CoupledBitsBack
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, LatentOverflow, StackUnderflow, SymbolError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.exact.boxes import Box, part, sides
from dqcodec.exact.flow.program import FlowProgram, bound, stacked
from dqcodec.frozen.flow import MAX_BATCH_DIMS, MAX_PARTICLES
from dqcodec.methods import mixing, trained_mixing
from dqcodec.methods.payload import MALFORMED, ModelReport, Payload

_FIRST_LOAN_TILES = 3


def encode(layers: Sequence[np.ndarray], program: FlowProgram) -> Payload:
    """The payload of layers (H, W, C) uint8, close to the vi bound.

    Raises StackUnderflow: the layers are too small for the first loan; LatentOverflow: a latent leaves the
    range for which the program is proven exact.
    """
    strips, tiles = program.layout([layer.shape[:2] for layer in layers])
    loan_tiles = _FIRST_LOAN_TILES
    while loan_tiles < len(tiles):
        seed = trained_mixing.encode([part(layers, box) for box in strips + tiles[:loan_tiles]]).data
        stack = Stack(seed)
        seeded_bits, bits = stack.bits, np.zeros(len(tiles))
        try:
            for batch in _batches(tiles, loan_tiles, program.channels):
                bits[batch] = program.codec.push(stack, stacked(layers, tiles[batch]))
        except StackUnderflow:
            loan_tiles += 1 + loan_tiles // 8
            continue
        break
    else:
        raise StackUnderflow("the image is too small for the model's first loan")
    payload = b"".join(map(write_varint, (0, loan_tiles, len(seed)))) + stack.to_bytes()
    flow_bits = float(bits.sum())
    bits[:loan_tiles] = bound(layers, tiles[:loan_tiles], program.codec)
    layer_bits, dims = np.zeros((2, len(layers)))
    np.add.at(layer_bits, [number for number, *_ in tiles], bits)
    np.add.at(dims, [number for number, *_ in tiles], [part(layers, box).size for box in tiles])
    layer_bits *= [layer.size for layer in layers] / dims  # strips count as much per sample as the layer's tiles
    report = ModelReport(
        layer_bits=tuple(layer_bits.tolist()),
        seed_bits=8 * len(seed),
        initial_bits=8 * len(seed) + flow_bits - float(layer_bits.sum()),
        grid_bits=stack.bits - seeded_bits - flow_bits,
    )
    return Payload(payload, report=report)


def decode(payload: bytes, shapes: Sequence[tuple[int, int, int]], program: FlowProgram) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload.

    Raises CorruptError: the payload is damaged, or was not made by this program.
    """
    strips, tiles = program.layout([shape[:2] for shape in shapes])
    reader = Reader(payload, error=MALFORMED)
    particles, loan_tiles, seed_bytes = reader.varint(), reader.varint(), reader.varint()
    if not 0 < loan_tiles < len(tiles):
        raise CorruptError(MALFORMED)
    codec = _codec(program, particles)
    stack = Stack.from_bytes(reader.rest())
    layers = [np.zeros(shape, np.uint8) for shape in shapes]
    try:
        for batch in reversed(list(_batches(tiles, loan_tiles, program.channels))):
            boxes = tiles[batch]
            values = codec.pop(stack, len(boxes), *sides(boxes[0]))
            if values.min() < 0 or values.max() >= 1 << program.bits:
                raise CorruptError("a decoded pixel is out of range")
            for box, value in zip(boxes, values):
                part(layers, box)[:] = value
    except (LatentOverflow, StackUnderflow, SymbolError) as error:
        raise CorruptError(f"damaged flow payload ({error})") from error
    lenders = [part(layers, box) for box in strips + tiles[:loan_tiles]]
    method = mixing if particles else trained_mixing
    for pixels, value in zip(lenders, method.decode(stack.seed(seed_bytes), [pixels.shape for pixels in lenders])):
        pixels[:] = value
    return layers


def _codec(program: FlowProgram, particles: int) -> BitsBack | CoupledBitsBack:
    """The codec of a payload with this number of particles. Raises CorruptError: the program codes with no such number."""
    if particles <= 1:
        return program.codec
    d = program.description
    if particles > MAX_PARTICLES or d.dequantizer != "uniform" or d.mixtures:
        raise CorruptError(f"damaged flow payload ({particles} particles)")
    return CoupledBitsBack(program.codec.dequantizer, program.codec.density, particles)


def _batches(tiles: Sequence[Box], loan_tiles: int, channels: int) -> Iterator[slice]:
    """The tiles after the loan, in batches, each of one shape: slices of the list."""
    done = loan_tiles
    while done < len(tiles):
        height, width = shape = sides(tiles[done])
        size = min(max(1, MAX_BATCH_DIMS // (height * width * channels)), done // loan_tiles)
        alike = sum(sides(box) == shape for box in tiles[done : done + size])
        yield slice(done, done + alike)
        done += alike
