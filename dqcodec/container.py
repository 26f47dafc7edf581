"""The .dqc file format, version 1. This docstring is its specification.

A varint is an unsigned little-endian base-128 number: 7 bits a byte, low bits first, the high bit set on every byte
but the last, in the fewest bytes, at most 5. A file is, in this order:

    bytes  field       content
    4      magic       89 44 51 43 ("\\x89DQC")
    1      version     1
    1      kind        bits 0-3 samples: 0 stored; else number of (colour type, bit depth) in this list, from 1 on:
                                (0, 1) (0, 2) (0, 4) (0, 8) (0, 16) (2, 8) (2, 16) (3, 1) (3, 2) (3, 4) (3, 8)
                                (4, 8) (4, 16) (6, 8) (6, 16)
                       bits 4-5 chunks: 0 absent, 1 raw, 2 deflate, 3 LZMA; 0 for stored
                       bit 6 a recipe is present; 0 for stored
                       bit 7 zero
    1-5    width       varint, at least 1                       } not for stored
    1-5    height      varint, at least 1                       }
    1-5    chunk bytes varint n                                 } only if chunks are present
    n      chunks      see below                                }
    1-5    recipe bytes varint n                                } only if a recipe is present
    n      recipe      see `png/exact.py`                       }
    8      checksum    of the samples, see below                  not for stored
    1      split       bits 0-2 step, bit 3 alpha set apart: see `layers.py`
                       bits 4-6 method of the first layer       } not for stored
    *      layers      see below                                }
    *      PNG         the file, verbatim                         only for stored
    4      CRC-32      of everything before it, little-endian

**layers** follow one another, those of the default image first, then those of each frame with data of its own. How many
there are and their shapes follow from chunks and split. A layer:

    1      method      bits 0-2: 1 classical, 2 flow, 3 autoregressive, 4 mixing; bit 3: the model is that of the last layer
                       that has one; bits 4-7 zero. The first layer has its method in the split
    8      model id    first 8 bytes of the model file's SHA-256    only for flow, autoregressive, bit 3 not set
    1-5    length      varint                                       not for the last layer: its payload is all that is left
    *      payload     see `methods/classical.py`, `flow.py`, `autoregressive.py`, `mixing.py`

**chunks** are those around the image data, as `png/metadata.py` and `palette.py` pack them. Raw: so. Deflate, LZMA: a varint,
the length of the raw form (at most 2^26), and a raw stream of it: deflate with the preset dictionary in
`png/metadata.py`, or LZMA1 with lc 3, lp 0, pb 0 and a dictionary of 1 MiB.

**checksum** is the first 8 bytes of SHA-256(of each raster: width ‖ height ‖ samples per pixel, each as a varint ‖ the samples,
one byte each, or two, high byte first, row by row, channels innermost).

Magic and version are read first (FormatError), then the CRC, then the rest (CorruptError). The size of a file is its
payloads, its chunks, and 10 bytes for stored, at most 32 for one layer by a model, up to 2^28 - 1 pixels.
"""

from __future__ import annotations

import hashlib
import lzma
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from .errors import CorruptError, FormatError, UnsupportedImageError
from .layers import Split, Step
from .png import MAX_PIXELS, Header, Skeleton, metadata
from .png.chunks import KINDS
from .varint import read_varint, write_varint

MAGIC = b"\x89DQC"
VERSION = 1
MODEL_ID_BYTES = 8
CHECKSUM_BYTES = 8
_CRC_BYTES = 4
_MAX_RAW_BYTES, _MIN_LZMA_BYTES = 1 << 26, 1 << 11
_RAW, _DEFLATE, _LZMA = 1, 2, 3
_LZMA_FILTERS = [{"id": lzma.FILTER_LZMA1, "preset": 9, "lc": 3, "lp": 0, "pb": 0, "dict_size": 1 << 20}]


class Method(IntEnum):
    """How a layer's payload carries it; stored is the whole file's."""

    STORED = 0
    CLASSICAL = 1
    FLOW = 2
    AUTOREGRESSIVE = 3
    MIXING = 4


LEARNED = {Method.FLOW, Method.AUTOREGRESSIVE}


@dataclass(frozen=True)
class Layer:
    """A coded layer; model_id only for a model's."""

    method: Method
    payload: bytes
    model_id: bytes = b""


@dataclass(frozen=True)
class Container:
    """The fields of one .dqc file: of a stored one the PNG file alone, of any other all the rest.

    skeleton: its palette is coded where the split says so. rasters: the layers of each.
    """

    stored: bytes | None = None
    skeleton: Skeleton | None = None
    split: Split = Split(Step.PLAIN)
    rasters: tuple[tuple[Layer, ...], ...] = ()
    checksum: bytes = b""
    recipe: bytes = b""

    @property
    def layers(self) -> list[Layer]:
        """Those of all rasters."""
        return [layer for layers in self.rasters for layer in layers]

    @property
    def method(self) -> str:
        """Each method that a layer has, once, in the order of layers: `classical`, `autoregressive+classical`, `stored`."""
        methods = [Method.STORED] if self.stored is not None else [layer.method for layer in self.layers]
        return "+".join(method.name.lower() for method in dict.fromkeys(methods))

    @property
    def payload_bytes(self) -> int:
        return len(self.stored) if self.stored is not None else sum(len(layer.payload) for layer in self.layers)

    def pack(self) -> bytes:
        """The .dqc file."""
        body = MAGIC + bytes([VERSION])
        if self.stored is not None:
            body += bytes([Method.STORED]) + self.stored
        else:
            header = self.skeleton.header
            coding, section = _pack_chunks(metadata.pack(self.skeleton))
            kind = 1 + KINDS.index((header.color_type, header.bit_depth)) | coding << 4 | bool(self.recipe) << 6
            fields = [bytes([kind]), write_varint(header.width), write_varint(header.height), section]
            fields += [write_varint(len(self.recipe)), self.recipe] if self.recipe else []
            body = b"".join((body, *fields, self.checksum, self._pack_layers()))
        return body + zlib.crc32(body).to_bytes(_CRC_BYTES, "little")

    @classmethod
    def parse(cls, data: bytes, max_pixels: int = MAX_PIXELS) -> Container:
        """The fields of the .dqc file `data`.

        Raises FormatError (no .dqc, or another version), CorruptError (damaged), UnsupportedImageError (more than
        `max_pixels`, those of all frames together).
        """
        if data[:4] != MAGIC:
            raise FormatError("not a .dqc file")
        if len(data) < 6 + _CRC_BYTES:
            raise CorruptError("truncated .dqc file")
        if data[4] != VERSION:
            raise FormatError(f".dqc version {data[4]}, but this release reads version {VERSION} only")
        end = len(data) - _CRC_BYTES
        if zlib.crc32(memoryview(data)[:end]).to_bytes(_CRC_BYTES, "little") != data[end:]:
            raise CorruptError("damaged .dqc file (its CRC differs)")
        reader = _Reader(data, 6, end)
        kind = data[5]
        if not kind:
            return cls(reader.rest())
        if not kind & 15 or kind >> 7:
            raise CorruptError("malformed .dqc header")
        width, height = reader.varint(), reader.varint()
        if not width or not height:
            raise CorruptError("malformed .dqc header")
        header = Header(width, height, *KINDS[(kind & 15) - 1])
        _check_pixels(header, [(height, width)], max_pixels)
        coding = kind >> 4 & 3
        chunks = _parse_chunks(coding, reader.take(reader.varint())) if coding else b""
        skeleton = metadata.unpack(chunks, header)
        _check_pixels(header, skeleton.sizes, max_pixels)
        recipe = reader.take(reader.varint()) if kind >> 6 else b""
        checksum = reader.take(CHECKSUM_BYTES)
        split, rasters = _parse_layers(reader, skeleton)
        return cls(None, skeleton, split, rasters, checksum, recipe)

    def _pack_layers(self) -> bytes:
        out, last_id = [], None
        for number, layer in enumerate(self.layers):
            code = int(layer.method)
            if layer.model_id:
                code |= (layer.model_id == last_id) << 3
            if number == 0:
                code = self.split.step | self.split.alpha << 3 | code << 4
            out.append(bytes([code]))
            if layer.model_id and layer.model_id != last_id:
                out.append(layer.model_id)
                last_id = layer.model_id
            if number < len(self.layers) - 1:
                out.append(write_varint(len(layer.payload)))
            out.append(layer.payload)
        return b"".join(out)


def sample_checksum(rasters: Sequence[np.ndarray]) -> bytes:
    """The checksum field for the samples (H, W, C), uint8 or uint16, of every raster."""
    digest = hashlib.sha256()
    for samples in rasters:
        height, width, channels = samples.shape
        digest.update(write_varint(width) + write_varint(height) + write_varint(channels))
        digest.update(np.ascontiguousarray(samples, samples.dtype.newbyteorder(">")))
    return digest.digest()[:CHECKSUM_BYTES]


class _Reader:
    """Takes fields off the front of data[position:end]; raises CorruptError where they run past the end."""

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self.data, self.position, self.end = data, position, end

    def take(self, count: int) -> bytes:
        start, self.position = self.position, self.position + count
        if self.position > self.end:
            raise CorruptError("a field of the .dqc file runs past its end")
        return self.data[start : self.position]

    def varint(self) -> int:
        value, position = read_varint(self.data, self.position)
        self.take(position - self.position)
        return value

    def rest(self) -> bytes:
        return self.take(self.end - self.position)


def _check_pixels(header: Header, sizes: Sequence[tuple[int, int]], max_pixels: int) -> None:
    if sum(height * width for height, width in sizes) > max_pixels:
        raise UnsupportedImageError(f"{header.width} x {header.height} is more than the limit of {max_pixels} pixels")


def _parse_layers(reader: _Reader, skeleton: Skeleton) -> tuple[Split, tuple[tuple[Layer, ...], ...]]:
    (code,) = reader.take(1)
    if code & 7 > max(Step):
        raise CorruptError("malformed .dqc header")
    split, code = Split(Step(code & 7), bool(code >> 3 & 1)), code >> 4
    counts = [len(split.shapes(size, skeleton)) for size in skeleton.sizes]
    layers, last_id = [], b""
    for number in range(sum(counts)):
        if number:
            (code,) = reader.take(1)
        method, is_same = code & 7, code >> 3
        if not 0 < method <= max(Method) or is_same > (method in LEARNED and bool(last_id)):
            raise CorruptError("malformed layer in the .dqc file")
        if method in LEARNED and not is_same:
            last_id = reader.take(MODEL_ID_BYTES)
        payload = reader.rest() if number == sum(counts) - 1 else reader.take(reader.varint())
        layers.append(Layer(Method(method), payload, last_id if method in LEARNED else b""))
    ordered = iter(layers)
    return split, tuple(tuple(next(ordered) for _ in range(count)) for count in counts)


def _pack_chunks(raw: bytes) -> tuple[int, bytes]:
    """(chunks bits of the kind byte, the section with its length)."""
    if not raw:
        return 0, b""
    sections = {_RAW: raw}
    if len(raw) <= _MAX_RAW_BYTES:
        deflate = zlib.compressobj(9, wbits=-15, zdict=metadata.DICTIONARY)
        sections[_DEFLATE] = write_varint(len(raw)) + deflate.compress(raw) + deflate.flush()
        if len(raw) >= _MIN_LZMA_BYTES:
            sections[_LZMA] = write_varint(len(raw)) + lzma.compress(raw, lzma.FORMAT_RAW, filters=_LZMA_FILTERS)
    coding = min(sections, key=lambda each: len(sections[each]))
    return coding, write_varint(len(sections[coding])) + sections[coding]


def _parse_chunks(coding: int, section: bytes) -> bytes:
    if coding == _RAW:
        return section
    reader = _Reader(section, 0, len(section))
    raw_bytes = reader.varint()
    if raw_bytes > _MAX_RAW_BYTES:
        raise CorruptError("too many chunk bytes in the .dqc file")
    if coding == _DEFLATE:
        stream = zlib.decompressobj(-15, metadata.DICTIONARY)
    else:
        stream = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_LZMA_FILTERS)
    try:
        raw = stream.decompress(reader.rest(), raw_bytes + 1)
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        raise CorruptError("damaged chunks in the .dqc file") from error
    if len(raw) != raw_bytes or not stream.eof or stream.unused_data:
        raise CorruptError("damaged chunks in the .dqc file")
    return raw
