"""The method flow: layers by a trained flow and bits-back coding.

Each layer is cut from its top left into the model's tiles. Tiles at the right and bottom edges are smaller; their sides
are multiples of the model's `multiple`. Strips narrower than that remain. The tiles of all layers form one list: the
largest first, tiles of one size layer after layer, row by row.

Bits-back coding borrows bits from the stack before it pays them back. So the strips are coded by
methods/trained_mixing.py and lie at the bottom of the stack, as its seed. Then come the first `loan_tiles` tiles. An
interlaced flow codes each by its masses P(x), which borrows only eight zero bytes above the strips; tiles of another
flow are parts of the seed. The other tiles follow in batches of one shape. A batch has at most 1/loan_tiles of the number
of tiles before it: `loan_tiles` coded tiles hold the bits that one more tile borrows.

The payload: varint OWN_LOAN for interlaced flows, else 0; varint loan_tiles; varint, the length of the seed in bytes,
without the zero bytes; for OWN_LOAN, varint, the growth (exact.flow.tables.growing_chunks); the stack, 32-bit words.
Earlier versions wrote 0 for interlaced flows, too, or the number of particles, see ans/particles.py, and a seed by
methods/mixing.py.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from dqcodec.ans.bits_back import BitsBack
from dqcodec.ans.particles import CoupledBitsBack
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, LatentOverflow, StackUnderflow, SymbolError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.exact.boxes import Box, area, part, sides
from dqcodec.exact.flow.program import FlowProgram, bound, stacked
from dqcodec.frozen.flow import MAX_BATCH_DIMS, MAX_GROWTH, MAX_PARTICLES, OWN_LOAN, OWN_SEED
from dqcodec.methods import mixing, trained_mixing
from dqcodec.methods.payload import MALFORMED, ModelReport, Payload

_FIRST_LOAN_TILES = 3
_LEAST_GROWTH = 3


def encode(layers: Sequence[np.ndarray], program: FlowProgram) -> Payload:
    """The payload of layers (H, W, C) uint8, close to the vi bound.

    Raises StackUnderflow: the layers are too small for the first loan; LatentOverflow: a latent leaves the
    range for which the program is proven exact.
    """
    strips, tiles = program.layout([layer.shape[:2] for layer in layers])
    coded = _coded(layers, strips, tiles, program)
    return Payload(coded.head + coded.stack.to_bytes(), report=_report(coded, layers, tiles, program))


def decode(payload: bytes, shapes: Sequence[tuple[int, int, int]], program: FlowProgram) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload.

    Raises CorruptError: the payload is damaged, or was not made by this program.
    """
    strips, tiles = program.layout([shape[:2] for shape in shapes])
    reader = Reader(payload, error=MALFORMED)
    loan, loan_tiles, seed_bytes = reader.varint(), reader.varint(), reader.varint()
    is_own = loan == OWN_LOAN and program.lends
    growth = reader.varint() if is_own else 0
    if not 0 < loan_tiles < len(tiles) + is_own or growth > MAX_GROWTH:
        raise CorruptError(MALFORMED)
    codec = program.codec if is_own else _codec(program, particles=loan)
    stack = Stack.from_bytes(reader.rest())
    layers = [np.zeros(shape, np.uint8) for shape in shapes]
    try:
        for batch in reversed(list(_batches(tiles, loan_tiles, program.channels))):
            boxes = tiles[batch]
            _set(layers, boxes, codec.pop(stack, len(boxes), *sides(boxes[0])), program)
        for before, box in reversed(_lent(tiles[:loan_tiles], program) if is_own else []):
            shape = 1, *sides(box), program.channels
            _set(layers, [box], program.codec.density.pop_symbols(stack, shape, before, growth), program)
    except (LatentOverflow, StackUnderflow, SymbolError) as error:
        raise CorruptError(f"damaged flow payload ({error})") from error
    seed = stack.seed(seed_bytes + OWN_SEED * is_own)
    seeded = _seeded(strips, tiles[:loan_tiles], is_own)
    if any(seed[seed_bytes:]) or (seed_bytes and not seeded):
        raise CorruptError(MALFORMED)
    if seeded:
        method = trained_mixing if loan in (0, OWN_LOAN) else mixing
        seeded = [part(layers, box) for box in seeded]
        for pixels, value in zip(seeded, method.decode(seed[:seed_bytes], [pixels.shape for pixels in seeded])):
            pixels[:] = value
    return layers


class _Coded(NamedTuple):
    """All tiles of layers, coded.

    head: the payload before the stack. loan_tiles, seed_bytes, lent_bits: of the loan. bits: what each later tile added
    to the stack, zeros for those of the loan.
    """

    head: bytes
    stack: Stack
    loan_tiles: int
    seed_bytes: int
    lent_bits: float
    bits: np.ndarray


def _coded(layers: Sequence[np.ndarray], strips: list[Box], tiles: list[Box], program: FlowProgram) -> _Coded:
    """The tiles above the first loan that suffices. Raises what encode raises."""
    most = len(tiles) if program.lends else len(tiles) - 1
    loan_tiles = min(_FIRST_LOAN_TILES, most) or 1
    loan = (_OwnLoan if program.lends else _SeedLoan)(layers, strips, program)
    while loan_tiles <= most:
        head, seed_bytes, stack = loan.lend(tiles[:loan_tiles])
        lent_bits, bits = stack.bits, np.zeros(len(tiles))
        try:
            for batch in _batches(tiles, loan_tiles, program.channels):
                bits[batch] = program.codec.push(stack, stacked(layers, tiles[batch]))
            return _Coded(head, stack, loan_tiles, seed_bytes, lent_bits, bits)
        except StackUnderflow:
            more = loan_tiles + 1 + loan_tiles // 8
            if program.lends:  # its tiles take long to code; each tile borrows at least fraction_bits for a sample
                borrowed = area(tiles[0][1:]) * program.channels * program.description.fraction_bits
                more = max(more, int(loan_tiles * borrowed / lent_bits))
            loan_tiles = more
    raise StackUnderflow("the image is too small for the model's first loan")


def _report(coded: _Coded, layers: Sequence[np.ndarray], tiles: list[Box], program: FlowProgram) -> ModelReport:
    """The bits of each layer by its bound, and what the loan and rounding cost beyond."""
    flow_bits, bits = float(coded.bits.sum()), coded.bits.copy()
    bits[: coded.loan_tiles] = bound(layers, tiles[: coded.loan_tiles], program.codec)
    layer_bits, dims = np.zeros((2, len(layers)))
    np.add.at(layer_bits, [number for number, *_ in tiles], bits)
    np.add.at(dims, [number for number, *_ in tiles], [part(layers, box).size for box in tiles])
    layer_bits *= [layer.size for layer in layers] / dims  # strips count as much per sample as the layer's tiles
    return ModelReport(
        layer_bits=tuple(layer_bits.tolist()),
        seed_bits=8 * coded.seed_bytes,
        initial_bits=coded.lent_bits + flow_bits - float(layer_bits.sum()),
        grid_bits=coded.stack.bits - coded.lent_bits - flow_bits,
    )


class _SeedLoan:
    """The loan of a flow that borrows: the first tiles are in the seed, as the strips are."""

    def __init__(self, layers: Sequence[np.ndarray], strips: list[Box], program: FlowProgram):
        self._layers, self._strips = layers, strips

    def lend(self, tiles: list[Box]) -> tuple[bytes, int, Stack]:
        """(the payload before the stack, the bytes of the stack's seed, the stack of the seed and these first tiles)."""
        seed = _seed(self._layers, _seeded(self._strips, tiles, is_own=False))
        return b"".join(map(write_varint, (0, len(tiles), len(seed)))), len(seed), Stack(seed)


class _OwnLoan:
    """The loan of an interlaced flow, which codes the first tiles itself above the seed. A larger loan codes only what it adds."""

    def __init__(self, layers: Sequence[np.ndarray], strips: list[Box], program: FlowProgram):
        self._layers, self._program = layers, program
        self._seed, self._growth = _seed(layers, _seeded(strips, [], is_own=True)), _LEAST_GROWTH
        self._start()

    def _start(self) -> None:
        self._stack, self._lent = Stack(self._seed + bytes(OWN_SEED)), 0

    def lend(self, tiles: list[Box]) -> tuple[bytes, int, Stack]:
        """As _SeedLoan.lend; `tiles` begin with those of the call before.

        Raises StackUnderflow: the tiles take too little code, however slowly their parts grow.
        """
        while True:
            try:
                for before, box in _lent(tiles, self._program)[self._lent :]:
                    x = stacked(self._layers, [box])
                    self._program.codec.density.push_symbols(self._stack, x, before, self._growth)
                    self._lent += 1
            except StackUnderflow:
                if self._growth == MAX_GROWTH:
                    raise
                self._growth += 1
                self._start()
                continue
            head = b"".join(map(write_varint, (OWN_LOAN, len(tiles), len(self._seed), self._growth)))
            return head, len(self._seed) + OWN_SEED, self._stack.copy()


def _seed(layers: Sequence[np.ndarray], boxes: list[Box]) -> bytes:
    """The code of these parts of layers, without a model."""
    return trained_mixing.encode([part(layers, box) for box in boxes]).data if boxes else b""


def _seeded(strips: list[Box], tiles: list[Box], is_own: bool) -> list[Box]:
    """What is coded in the seed, if the first loan is `tiles`."""
    return strips if is_own else strips + tiles


def _lent(tiles: list[Box], program: FlowProgram) -> list[tuple[int, Box]]:
    """The tiles that an interlaced flow lends, each with the number of symbols before it."""
    sizes = [area(box[1:]) * program.channels for box in tiles]
    return list(zip(accumulate(sizes, initial=0), tiles))


def _set(layers: Sequence[np.ndarray], boxes: Sequence[Box], values: np.ndarray, program: FlowProgram) -> None:
    """Set the pixels of boxes to decoded values. Raises CorruptError: a value is no pixel."""
    if values.min() < 0 or values.max() >= 1 << program.bits:
        raise CorruptError("a decoded pixel is out of range")
    for box, value in zip(boxes, values):
        part(layers, box)[:] = value


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
