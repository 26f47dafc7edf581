"""The .dqc file as bytes. docs/format.md is its specification; the two must agree.

    file     magic, version, head, checksum, payloads, CRC-32     Group of one image: pack, unpack
    head     kind, size, chunks, recipe, split, layers            Entry.head, read_heads
    chunks   the PNG's other chunks, packed in a section          pack_chunks, read_section
    layer    method, and the id of its model                      Layer
    payload  the code of one layer, or of a bundle                owners

A bundle is all layers of one method and one model; or, by a method without a model, of one number of channels. Classical
layers are alone. A stored image has one payload, its PNG file, and no layers.

A short file, of a small image, lacks the version; its check joins CRC-32 and checksum. So only decoding shows its damage.

A reader checks magic and version first (FormatError), then the CRC, then the rest (CorruptError). It bounds each length
before it takes memory.
"""

from __future__ import annotations

import dataclasses
import hashlib
import lzma
import weakref
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dqcodec.base.errors import CorruptError, FormatError, UnsupportedImageError
from dqcodec.base.varint import read_varint, write_varint
from dqcodec.format.canvas import Spot, spots
from dqcodec.format.split import Split, Step
from dqcodec.format.values import Map, Values
from dqcodec.png import MAX_PIXELS, Header, Png, Skeleton, dictionary, metadata
from dqcodec.png.chunks import KINDS, check_palette, check_size

MAGIC = b"\x89DQC"
VERSION = 1
MODEL_ID_BYTES = 8
CHECKSUM_BYTES = 8
CRC_BYTES = 4
FRAME_BYTES = len(MAGIC) + 1 + CRC_BYTES
SHORT_MAGIC = MAGIC[:3]
SHORT_CHECKSUM_BYTES = 4
_SHORT_SAVES = len(MAGIC) + 1 - len(SHORT_MAGIC) + CHECKSUM_BYTES  # bytes
MAX_SHORT_PIXELS = 1 << 16  # decoding must be quick, because only decoding shows damage
_IS_LONG = 64  # a bit of the byte after SHORT_MAGIC, set in the magic of other files
MAX_UNPACKED_BYTES = 1 << 28  # of all sections of a file, or of a group of an archive
_MAX_RAW_BYTES, _MIN_LZMA_BYTES = 1 << 26, 1 << 11
_RAW, _DEFLATE, _LZMA, _PROFILES = 1, 2, 3, 4
_DICTIONARIES = {_DEFLATE: dictionary.TEXTS, _PROFILES: dictionary.PROFILES}
_MAX_NOISE_BYTES = 1 << 20  # LZMA takes a second; longer noise is not tried
_ODD = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio: multiplying by it hashes a word
_PACKED_CHUNKS: weakref.WeakKeyDictionary[Skeleton, dict[bytes, tuple[int, bytes]]] = weakref.WeakKeyDictionary()
_REPEAT = 6 << 4
_LZMA_FILTERS = [{"id": lzma.FILTER_LZMA1, "preset": 9, "lc": 3, "lp": 0, "pb": 0, "dict_size": 1 << 20}]


class Method(IntEnum):
    """How a layer is coded. The numbers are part of the format. STORED: the PNG file is kept, without layers."""

    STORED = 0
    CLASSICAL = 1
    FLOW = 2
    AUTOREGRESSIVE = 3
    MIXING = 4
    MODEL_MIXING = 5
    PIXEL_MIXING = 7  # 6 would make a head look like that of a repeated image
    EXPERTS = 8
    ANIMATION = 9  # the codes 10, 11 and 13 are of models that the head has named before
    JPEG = 12
    TRAINED_MIXING = 14

    @property
    def label(self) -> str:
        """The name in messages: `model-mixing`."""
        return self.name.lower().replace("_", "-")


LEARNED = {Method.FLOW, Method.AUTOREGRESSIVE, Method.MODEL_MIXING}  # methods that need a model
METHODS = set(Method) - {Method.STORED}  # methods that code layers
TOGETHER = METHODS - {Method.CLASSICAL}  # methods that code layers together
_WHOLE_CODES = {
    Method.EXPERTS,
    Method.ANIMATION,
    Method.JPEG,
    Method.TRAINED_MIXING,
}  # methods whose number is their code; bit 3 says nothing of a model


@dataclass(frozen=True)
class Layer:
    """A layer in a head. model_id: 8 bytes, or b"" for a method without a model."""

    method: Method
    model_id: bytes = b""


@dataclass(frozen=True)
class Entry:
    """The head of an image.

    skeleton: None for a stored image. With the step COLORS its palette is coded, see palette.py. rasters: the layers of
    each raster. recipe: see png/exact.py, or b"". values: the code of the map to the view that the layers hold, see
    values.py; b"" if they hold the image's own samples. repeats: d > 0 means that the image has no layers: it has the
    samples of the image d places before.
    """

    skeleton: Skeleton | None = None
    split: Split = Split(Step.PLAIN)
    rasters: tuple[tuple[Layer, ...], ...] = ()
    recipe: bytes = b""
    repeats: int = 0
    values: bytes = b""

    @property
    def layers(self) -> list[Layer]:
        """The layers of all rasters, in order."""
        return [layer for layers in self.rasters for layer in layers]

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        """The shape (H, W, C) of each layer; raises CorruptError: the split does not fit."""
        if self.repeats:
            return []
        return [shape for size in self.skeleton.sizes for shape in self.split.shapes(size, self.view)]

    def spots(self, number: int) -> list[Spot]:
        """The spot of each layer; number: of the image in its group."""
        return [] if self.repeats else spots(self.skeleton, len(self.rasters[0]), number)

    @property
    def view(self) -> Skeleton:
        """The skeleton of the view that the layers hold; raises CorruptError: the values are malformed."""
        if not self.values:
            return self.skeleton
        return Map.unpack(self.values, self.skeleton.header).view(self.skeleton)

    def undo(self, layers: Sequence[Sequence[np.ndarray]]) -> Png:
        """The image of the layers (H, W, C) uint8 of every raster. Raises CorruptError: samples out of range."""
        if not self.values:
            return self.split.undo(layers, self.skeleton)
        found = Map.unpack(self.values, self.skeleton.header)
        return found.undo(self.split.undo(layers, found.view(self.skeleton)), self.skeleton)

    @property
    def may_be_short(self) -> bool:
        """Whether a short file may hold the image."""
        return bool(self.skeleton) and not self.recipe and self.skeleton.area <= MAX_SHORT_PIXELS

    @property
    def frame_bytes(self) -> int:
        """The bytes of the image's file besides its head, checksum and payloads; negative if it is short."""
        return FRAME_BYTES - _SHORT_SAVES if self.may_be_short else FRAME_BYTES

    @property
    def method(self) -> str:
        """The methods of the layers, each once: `classical`, `autoregressive+classical`; or `stored`, `repeated`."""
        if self.repeats:
            return "repeated"
        methods = [layer.method for layer in self.layers] or [Method.STORED]
        return "+".join(method.label for method in dict.fromkeys(methods))

    def head(self, last_id: bytes = b"", *, is_lone: bool = True) -> bytes:
        """The head as bytes.

        last_id: model id of the last layer with a model in the heads before. is_lone: pack the chunks; otherwise they
        are raw, and the header of an archive group packs all heads together.
        """
        if self.skeleton is None:
            return bytes([Method.STORED])
        header = self.skeleton.header
        coding, section = (pack_chunks if is_lone else _raw_chunks)(self.skeleton, self.values)
        kind = (
            1 + KINDS.index((header.color_type, header.bit_depth))
            | (coding & 3) << 4
            | bool(self.recipe) << 6
            | coding >> 2 << 7
        )
        out = [bytes([kind]), write_varint(header.width), write_varint(header.height), section]
        out += [write_varint(len(self.recipe)), self.recipe] if self.recipe else []
        if self.repeats:
            out += [bytes([_REPEAT]), write_varint(self.repeats)]
        for number, layer in enumerate(self.layers):
            is_last = bool(layer.model_id) and layer.model_id == last_id
            code = layer.method | is_last << 3
            out.append(bytes([self.split.step | self.split.alpha << 3 | code << 4 if number == 0 else code]))
            if layer.model_id and not is_last:
                out.append(layer.model_id)
                last_id = layer.model_id
        return b"".join(out)


@dataclass(frozen=True)
class Group:
    """Images, the payloads of their layers in the order of the format, and the checksum of all images that are not
    stored. A short file has the first SHORT_CHECKSUM_BYTES of the checksum."""

    entries: tuple[Entry, ...]
    payloads: tuple[bytes, ...]
    checksum: bytes = b""

    @property
    def is_short(self) -> bool:
        """Whether it is, or becomes, a short file."""
        return len(self.checksum) == SHORT_CHECKSUM_BYTES

    def shortened(self) -> Group:
        """The group as a short file, if it may be one; else the group."""
        return (
            dataclasses.replace(self, checksum=self.checksum[:SHORT_CHECKSUM_BYTES])
            if self.entries[0].may_be_short
            else self
        )

    def pack(self) -> bytes:
        """The .dqc file of a group of one image."""
        if self.is_short:
            body = SHORT_MAGIC + self.heads() + self._joined()
            return body + _check(body, self.checksum)
        body = b"".join((MAGIC, bytes([VERSION]), self.heads(), self.tail()))
        return body + zlib.crc32(body).to_bytes(CRC_BYTES, "little")

    @classmethod
    def unpack(cls, data: bytes, max_pixels: int = MAX_PIXELS) -> Group:
        """The inverse of pack.

        Raises FormatError (not a .dqc file, or of another version), CorruptError (damaged), UnsupportedImageError (all
        frames together have more than `max_pixels`).
        """
        if is_short(data):
            return cls._unpack_short(data, max_pixels)
        start, end = len(MAGIC) + 1, len(data) - CRC_BYTES
        if data[: len(MAGIC)] != MAGIC:
            raise FormatError("not a .dqc file of one image")
        if end <= start:
            raise CorruptError("truncated .dqc file")
        if data[start - 1] != VERSION:
            raise FormatError(f".dqc file of version {data[start - 1]}, but this release reads version {VERSION} only")
        if zlib.crc32(memoryview(data)[:end]).to_bytes(CRC_BYTES, "little") != data[end:]:
            raise CorruptError("damaged .dqc file (its CRC differs)")
        reader = Reader(data, start, end)
        return read_tail(read_heads(reader, 1, max_pixels), reader)

    @classmethod
    def _unpack_short(cls, data: bytes, max_pixels: int) -> Group:
        """Parse a short file. Damage of its bytes becomes a checksum that the samples do not match."""
        reader = Reader(data, len(SHORT_MAGIC), len(data) - CRC_BYTES)
        try:
            entries = read_heads(reader, 1, MAX_SHORT_PIXELS)
        except UnsupportedImageError as error:
            raise CorruptError("damaged .dqc file (it is short, but its image is large)") from error
        if count_pixels(entries) > max_pixels:
            raise UnsupportedImageError(f"the image has more than the limit of {max_pixels} pixels")
        group = read_payloads(entries, reader, _check(data[: reader.end], data[reader.end :]))
        if not entries[0].may_be_short:
            raise CorruptError("malformed .dqc header")
        return group

    def heads(self, *, are_lone: bool = True) -> bytes:
        """The heads of all images, joined; are_lone: see is_lone of Entry.head."""
        out, last_id = [], b""
        for entry in self.entries:
            out.append(entry.head(last_id, is_lone=are_lone))
            last_id = next((layer.model_id for layer in reversed(entry.layers) if layer.model_id), last_id)
        return b"".join(out)

    def tail(self) -> bytes:
        """The checksum and the payloads as bytes."""
        return self.checksum + self._joined()

    def _joined(self) -> bytes:
        """The payloads as bytes."""
        lengths = [*(write_varint(len(payload)) for payload in self.payloads[:-1]), b""]
        return b"".join(part for pair in zip(lengths, self.payloads) for part in pair)


def is_short(start: bytes) -> bool:
    """Whether a file with this start is a short file."""
    return start.startswith(SHORT_MAGIC) and len(start) > len(SHORT_MAGIC) and not start[len(SHORT_MAGIC)] & _IS_LONG


def _check(body: bytes, checksum: bytes) -> bytes:
    """The last bytes of a short file, given the checksum; or the checksum, given the last bytes."""
    return (zlib.crc32(body) ^ int.from_bytes(checksum, "little")).to_bytes(CRC_BYTES, "little")


def read_heads(reader: Reader, count: int, max_pixels: int) -> tuple[Entry, ...]:
    """Read `count` heads: the inverse of Group.heads.

    Raises CorruptError, UnsupportedImageError (all images together have more than `max_pixels`).
    """
    entries, last_id, left = [], b"", max_pixels
    for number in range(count):
        entry, last_id = _read_head(reader, last_id, max_pixels)
        if entry.repeats and not (entry.repeats <= number and _can_repeat(entry, entries[number - entry.repeats])):
            raise CorruptError("malformed .dqc header")
        left -= count_pixels([entry])
        if left < 0:
            raise UnsupportedImageError(f"the images have more than the limit of {max_pixels} pixels")
        entries.append(entry)
    return tuple(entries)


def count_pixels(entries: Sequence[Entry]) -> int:
    """The pixels of all frames of the images that have layers."""
    return sum(entry.skeleton.area for entry in entries if entry.skeleton and not entry.repeats)


def read_tail(entries: tuple[Entry, ...], reader: Reader) -> Group:
    """Read checksum and payloads of images with these heads: the inverse of Group.tail. Raises CorruptError."""
    checksum = reader.take(CHECKSUM_BYTES) if any(entry.skeleton for entry in entries) else b""
    return read_payloads(entries, reader, checksum)


def read_payloads(entries: tuple[Entry, ...], reader: Reader, checksum: bytes) -> Group:
    """Read the payloads of images with these heads and this checksum. Raises CorruptError."""
    payloads = [reader.take(reader.varint()) for _ in owners(entries)[1:]]
    return Group(entries, (*payloads, reader.rest()), checksum)


def owners(entries: Sequence[Entry]) -> list[list[tuple[int, int]]]:
    """For each payload of a group, the layers in it, as (image, layer), counted from 0. A stored image counts as one
    layer."""
    alone, together = [], {}
    for image, entry in enumerate(entries):
        if entry.skeleton is None:
            alone.append([(image, 0)])
            continue
        for number, (layer, shape) in enumerate(zip(entry.layers, entry.shapes)):  # empty if the image repeats another
            if layer.method in TOGETHER:
                together.setdefault((layer.method, layer.model_id or shape[2]), []).append((image, number))
            else:
                alone.append([(image, number)])
    return [*alone, *together.values()]


def sample_checksum(rasters: Sequence[np.ndarray]) -> bytes:
    """The 8 bytes of the field checksum, for the samples (H, W, C), uint8 or uint16, of every raster."""
    digest = hashlib.sha256()
    for samples in rasters:
        height, width, channels = samples.shape
        digest.update(write_varint(width) + write_varint(height) + write_varint(channels))
        digest.update(np.ascontiguousarray(samples, samples.dtype.newbyteorder(">")))
    return digest.digest()[:CHECKSUM_BYTES]


class Reader:
    """Reads fields of data[position:end] one after the other. A field that runs past the end raises CorruptError.

    Attributes:
        unpacked: the bytes that sections may still unpack to.
    """

    def __init__(self, data: bytes, position: int, end: int, unpacked: int = MAX_UNPACKED_BYTES) -> None:
        """data: the bytes. position, end: where reading starts and must stop."""
        self.data, self.position, self.end, self.unpacked = data, position, end, unpacked

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        start, self.position = self.position, self.position + count
        if self.position > self.end:
            raise CorruptError("a field of the .dqc file runs past its end")
        return self.data[start : self.position]

    def varint(self) -> int:
        """The next varint."""
        value, position = read_varint(self.data, self.position)
        self.take(position - self.position)
        return value

    def rest(self) -> bytes:
        """All remaining bytes."""
        return self.take(self.end - self.position)


def pack_chunks(skeleton: Skeleton, values: bytes = b"") -> tuple[int, bytes]:
    """The smallest (packing, section) of a skeleton's chunks and of values; (0, b"") if there are none.

    The result is kept as long as the skeleton, because the search in codec/choose.py asks for it many times.
    """
    packed = _PACKED_CHUNKS.setdefault(skeleton, {})
    if values not in packed:
        forms = {metadata.pack(skeleton, values, inflate=inflate) for inflate in (False, True)}
        sections = [pack_section(chunks) if chunks else (0, b"") for chunks in sorted(forms)]
        packed[values] = min(sections, key=lambda section: len(section[1]))
    return packed[values]


def _raw_chunks(skeleton: Skeleton, values: bytes) -> tuple[int, bytes]:
    """The raw (packing, section) of a skeleton's chunks and of values; (0, b"") if there are none."""
    chunks = metadata.pack(skeleton, values)
    return (_RAW, write_varint(len(chunks)) + chunks) if chunks else (0, b"")


def pack_section(raw: bytes) -> tuple[int, bytes]:
    """The smallest (packing, section) of bytes."""
    sections = {_RAW: raw}
    if len(raw) <= _MAX_RAW_BYTES:
        for packing, texts in _DICTIONARIES.items():
            deflate = zlib.compressobj(9, wbits=-15, zdict=texts)
            sections[packing] = write_varint(len(raw)) + deflate.compress(raw) + deflate.flush()
        is_hopeless = len(raw) > _MAX_NOISE_BYTES and len(sections[_DEFLATE]) >= len(raw) and not _has_repeats(raw)
        if len(raw) >= _MIN_LZMA_BYTES and not is_hopeless:
            sections[_LZMA] = write_varint(len(raw)) + lzma.compress(raw, lzma.FORMAT_RAW, filters=_LZMA_FILTERS)
    coding = min(sections, key=lambda each: len(sections[each]))
    return coding, write_varint(len(sections[coding])) + sections[coding]


def _has_repeats(raw: bytes) -> bool:
    """Whether a kilobyte or more occurs twice, at any distance.

    It looks for equal 8-byte words. A hash of the word selects 1 of 256 words, so both copies of a text select the same
    ones.
    """
    at_offsets = [np.frombuffer(raw, "<u8", (len(raw) - offset) // 8, offset) for offset in range(8)]
    words = np.concatenate([each[each * np.uint64(_ODD) >> np.uint64(56) == 0] for each in at_offsets])
    return len(np.unique(words)) < len(words)


def read_section(reader: Reader, packing: int) -> bytes:
    """Read and unpack a section.

    Raises CorruptError: it is damaged, or it unpacks to more than 64 MiB, or to more than the reader has left.
    """
    section = reader.take(reader.varint())
    if packing == _RAW:
        return section
    if packing not in (*_DICTIONARIES, _LZMA):
        raise CorruptError("a section of the .dqc file has an unknown packing")
    inner = Reader(section, 0, len(section))
    raw_bytes = inner.varint()
    reader.unpacked -= raw_bytes
    if raw_bytes > _MAX_RAW_BYTES or reader.unpacked < 0:
        raise CorruptError("the .dqc file unpacks to too many bytes")
    if packing in _DICTIONARIES:
        stream = zlib.decompressobj(-15, _DICTIONARIES[packing])
    else:
        stream = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_LZMA_FILTERS)
    try:
        raw = stream.decompress(inner.rest(), raw_bytes + 1)
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        raise CorruptError("a section of the .dqc file is damaged") from error
    if len(raw) != raw_bytes or not stream.eof or stream.unused_data:
        raise CorruptError("a section of the .dqc file is damaged")
    return raw


def _read_head(reader: Reader, last_id: bytes, max_pixels: int) -> tuple[Entry, bytes]:
    """Read a head: (entry, model id of the last layer with a model so far)."""
    (kind,) = reader.take(1)
    if kind == Method.STORED:
        return Entry(), last_id
    if not kind & 15:
        raise CorruptError("malformed .dqc header")
    width, height = reader.varint(), reader.varint()
    if not width or not height:
        raise CorruptError("malformed .dqc header")
    header = Header(width, height, *KINDS[(kind & 15) - 1])
    check_size(width, height, max_pixels)
    packing = kind >> 4 & 3 | kind >> 7 << 2
    skeleton, values = metadata.unpack(read_section(reader, packing) if packing else b"", header)
    check_size(width, height, max_pixels, skeleton)
    recipe = reader.take(reader.varint()) if kind >> 6 & 1 else b""
    (code,) = reader.take(1)
    if code == _REPEAT:
        entry = Entry(skeleton, recipe=recipe, repeats=reader.varint())
        if not entry.repeats or values:
            raise CorruptError("malformed .dqc header")
        check_palette(header, skeleton.parts[0])
        return entry, last_id
    if code & 7 > max(Step):
        raise CorruptError("malformed .dqc header")
    view, kind = skeleton, Values.SAMPLES
    if values:
        found = Map.unpack(values, header)
        view, kind = found.view(skeleton), found.kind
    split, code = Split(Step(code & 7), bool(code >> 3 & 1), kind), code >> 4
    counts = [len(split.shapes(size, view)) for size in skeleton.sizes]
    layers = []
    for number in range(sum(counts)):
        if number:
            (code,) = reader.take(1)
        method, is_last = (code, 0) if code in _WHOLE_CODES else (code & 7, code >> 3)
        if method not in METHODS or is_last > (method in LEARNED and bool(last_id)):
            raise CorruptError("malformed layer in the .dqc file")
        if method in LEARNED and not is_last:
            last_id = reader.take(MODEL_ID_BYTES)
        layers.append(Layer(Method(method), last_id if method in LEARNED else b""))
    ordered = iter(layers)
    rasters = tuple(tuple(next(ordered) for _ in range(count)) for count in counts)
    return Entry(skeleton, split, rasters, recipe, values=values), last_id


def _can_repeat(entry: Entry, other: Entry) -> bool:
    """Whether an image may repeat the samples of `other`: it has its own layers, and the same header and sizes."""
    if other.skeleton is None or other.repeats:
        return False
    return entry.skeleton.sizes == other.skeleton.sizes and entry.skeleton.header == other.skeleton.header
