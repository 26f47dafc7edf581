"""The method jpeg: pixels that a JPEG decoder made, as the coefficients of the JPEG file, see exact/jpeg/.

Layers with the same number of channels, 1 or 3, are coded one after the other, and the mixer keeps what it learns. The
payload: for each layer

    1     kind     bits 0-2 the sampling, a place in SAMPLINGS; 0 for one channel. Bit 3 is set if pixels differ from the decoded ones,
                   bit 4 if the image is cut out of what is decoded
    *     offset   a byte, only with bit 4: 16 times the rows that are cut off above, and the columns cut off to the left
    *     tables   one, or two for three channels, luma and chroma: a byte, the quality of a table of the standard, 1 to 100, or 0
                   and 64 bytes, the steps in zigzag order, at least 1

then the bytes of the coder: for each layer the coefficients of its components, then, with bit 3, the differences.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.exact.jpeg.blocks import block_count
from dqcodec.exact.jpeg.decoding import SAMPLINGS, Jpeg, component_size
from dqcodec.exact.jpeg.recovery import recover
from dqcodec.exact.jpeg.tables import standard
from dqcodec.exact.mixing.binary_coder import BinaryCoder
from dqcodec.exact.mixing.coefficient_mixing import CoefficientMixer, code_component, code_differences
from dqcodec.frozen.jpeg import CHROMA, LUMA, MAX_BLOCKS_A_BYTE, ZIGZAG
from dqcodec.frozen.mixing import ORDERS
from dqcodec.methods.payload import MALFORMED, Payload

_DIFFERS, _IS_CUT = 8, 16
_MAX_SAMPLE_BYTES = 7  # of a coefficient or a difference: 28 decisions of 11 bits, and a part of its block's decisions


def encode(layers: Sequence[np.ndarray]) -> Payload:
    """The payload of layers (H, W, 1 or 3) uint8, all with the same number of channels. It has the bytes of each layer."""
    return encode_as(layers, [recover(layer) for layer in layers])


def encode_as(layers: Sequence[np.ndarray], jpegs: Sequence[Jpeg]) -> Payload:
    """The payload of layers as decoded JPEGs and the differences from them. Levels are at most MAX_NUMBER."""
    differences = [_differences(layer, jpeg.pixels(*layer.shape[:2])) for layer, jpeg in zip(layers, jpegs)]
    heads = [_pack_head(jpeg, differs=bool(each.any())) for jpeg, each in zip(jpegs, differences)]
    coefficients = sum(jpeg.size for jpeg in jpegs)
    mixer, ends = CoefficientMixer.new(coefficients), []
    coder = BinaryCoder.writer(_MAX_SAMPLE_BYTES * (coefficients + sum(each.size for each in differences)))
    for jpeg, each in zip(jpegs, differences):
        _code(mixer, coder, jpeg, each if each.any() else None)
        ends.append(coder.position)
    return Payload.of(heads, coder.finish(), ends)


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload; raises CorruptError: malformed, or too short for its layers."""
    reader = Reader(data, error=MALFORMED)
    jpegs, differs = zip(*[_read_head(reader, channels) for *_, channels in shapes])
    grids = [_grids(jpeg, shape) for jpeg, shape in zip(jpegs, shapes)]
    blocks = sum(rows * columns for each in grids for rows, columns in each)
    coder = BinaryCoder.reader(reader.rest(), blocks, MAX_BLOCKS_A_BYTE)
    jpegs = [
        jpeg._replace(levels=tuple(np.zeros((*grid, 64), np.int16) for grid in each))
        for jpeg, each in zip(jpegs, grids)
    ]
    mixer, layers = CoefficientMixer.new(sum(jpeg.size for jpeg in jpegs)), []
    for shape, jpeg, is_different in zip(shapes, jpegs, differs):
        differences = np.zeros(shape, np.int16) if is_different else None
        _code(mixer, coder, jpeg, differences)
        layer = jpeg.pixels(*shape[:2])
        if differences is not None:
            layer[..., ORDERS[shape[2]]] += differences.astype(np.uint8)
        layers.append(layer)
    return layers


def _code(mixer: CoefficientMixer, coder: BinaryCoder, jpeg: Jpeg, differences: np.ndarray | None) -> None:
    """Code a layer: the levels of its components, and the differences if there are any."""
    for number, levels in enumerate(jpeg.levels):
        other = jpeg.levels[max(0, number - 1)]
        factors = np.array(jpeg.sampling[:2]) if number == 1 else np.ones(2, np.int64)
        code_component(mixer, coder, levels, other, factors, number, jpeg.table(number))
    if differences is not None:
        code_differences(mixer, coder, differences)


def _differences(layer: np.ndarray, decoded: np.ndarray) -> np.ndarray:
    """The image less the decoded pixels, modulo 256, int16 (H, W, C), -128 to 127, channels in the order of coding."""
    differences = (layer - decoded).astype(np.int8).astype(np.int16)
    return np.ascontiguousarray(differences[..., ORDERS[layer.shape[2]]])


def _pack_head(jpeg: Jpeg, *, differs: bool) -> bytes:
    """The head of a layer in the payload."""
    (down, right), is_cut = jpeg.offset, any(jpeg.offset)
    kind = SAMPLINGS.index(jpeg.sampling) | (_DIFFERS if differs else 0) | (_IS_CUT if is_cut else 0)
    out = [bytes([kind, 16 * down + right] if is_cut else [kind])]
    for table, base in zip(jpeg.tables, (LUMA, CHROMA)):
        quality = next((each for each in range(1, 101) if np.array_equal(standard(base, each), table)), 0)
        out.append(bytes([quality]) if quality else bytes([0, *table[ZIGZAG].tolist()]))
    return b"".join(out)


def _read_head(reader: Reader, channels: int) -> tuple[Jpeg, bool]:
    """The inverse of _pack_head: a Jpeg without levels, and whether pixels differ. Raises CorruptError."""
    if channels not in (1, 3):
        raise CorruptError("a JPEG has 1 or 3 channels, the image has another number")
    kind = reader.byte()
    sampling = kind & 7
    if kind >> 5 or sampling >= (1 if channels == 1 else len(SAMPLINGS)):
        raise CorruptError(MALFORMED)
    cut = reader.byte() if kind & _IS_CUT else 0
    tables = tuple(_read_table(reader, base) for base in (LUMA, CHROMA)[: 1 + (channels == 3)])
    return Jpeg(SAMPLINGS[sampling], tables, (), (cut >> 4, cut & 15)), bool(kind & _DIFFERS)


def _read_table(reader: Reader, base: np.ndarray) -> np.ndarray:
    """A table of a head. Raises CorruptError."""
    quality = reader.byte()
    table = standard(base, quality) if 1 <= quality <= 100 else np.zeros(64, np.int64)
    if quality == 0:
        table[ZIGZAG] = list(reader.take(64))
    if not table.all():
        raise CorruptError(MALFORMED)
    return table


def _grids(jpeg: Jpeg, shape: tuple[int, int, int]) -> list[tuple[int, int]]:
    """The rows and columns of blocks of each component of a layer (H, W, C)."""
    height, width = shape[0] + jpeg.offset[0], shape[1] + jpeg.offset[1]
    small = component_size(height, width, jpeg.sampling)
    sizes = [(height, width), *[small] * (shape[2] - 1)]
    return [(block_count(rows), block_count(columns)) for rows, columns in sizes]
