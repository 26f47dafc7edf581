"""Heads: what a file says of an image besides the code of its layers, and how it is written and read."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dqcodec.base.errors import CorruptError, UnsupportedImageError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.format.canvas import Spot, spots
from dqcodec.format.layer import LAYER_METHODS, LEARNED, MODEL_ID_BYTES, WHOLE_CODES, Layer, Method
from dqcodec.format.section import RAW, pack_section, read_section
from dqcodec.format.split import Split, Step
from dqcodec.format.values import Map, Values
from dqcodec.png import Header, Png, Skeleton, metadata
from dqcodec.png.skeleton import KINDS, check_palette, check_size

_REPEAT = 6 << 4
_PACKED_CHUNKS: weakref.WeakKeyDictionary[Skeleton, dict[bytes, tuple[int, bytes]]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Entry:
    """The head of an image. Some of its chunks may be inflated.

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
        view = self.view
        return [shape for size in self.skeleton.sizes for shape in self.split.shapes(size, view)]

    def spots(self, number: int) -> list[Spot]:
        """The spot of each layer; number: of the image in its group."""
        return [] if self.repeats else spots(self.skeleton, len(self.rasters[0]), number)

    @functools.cached_property
    def map(self) -> Map | None:
        """The map to the view that the layers hold; raises CorruptError: the values are malformed."""
        return Map.unpack(self.values, self.skeleton.header) if self.values else None

    @functools.cached_property
    def view(self) -> Skeleton:
        """The skeleton of the view that the layers hold; raises CorruptError: the values are malformed."""
        return self.map.view(self.skeleton) if self.map else self.skeleton

    def undo(self, layers: Sequence[Sequence[np.ndarray]]) -> Png:
        """The image of the layers (H, W, C) uint8 of every raster, with the chunks of the PNG.

        Raises CorruptError: samples out of range, or a chunk cannot be made.
        """
        skeleton = self.skeleton.deflated()
        if not self.map:
            return self.split.undo(layers, skeleton)
        return self.map.undo(self.split.undo(layers, self.map.view(skeleton)), skeleton)

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
        packing, section = (pack_chunks if is_lone else _raw_chunks)(self.skeleton, self.values)
        kind = (
            1 + KINDS.index((header.color_type, header.bit_depth))
            | (packing & 3) << 4
            | bool(self.recipe) << 6
            | packing >> 2 << 7
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


def pack_heads(entries: Sequence[Entry], *, are_lone: bool = True) -> bytes:
    """The heads of images, joined; are_lone: see is_lone of Entry.head."""
    out, last_id = [], b""
    for entry in entries:
        out.append(entry.head(last_id, is_lone=are_lone))
        last_id = next((layer.model_id for layer in reversed(entry.layers) if layer.model_id), last_id)
    return b"".join(out)


def read_heads(reader: Reader, count: int, max_pixels: int) -> tuple[Entry, ...]:
    """Read `count` heads: the inverse of pack_heads.

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


def _read_head(reader: Reader, last_id: bytes, max_pixels: int) -> tuple[Entry, bytes]:
    """Read a head: (entry, model id of the last layer with a model so far)."""
    kind = reader.byte()
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
    reader.allowance.parts -= skeleton.count
    if reader.allowance.parts < 0:
        raise CorruptError("the images of the .dqc file have too many rasters and chunks")
    check_size(width, height, max_pixels, skeleton)
    recipe = reader.take(reader.varint()) if kind >> 6 & 1 else b""
    code = reader.byte()
    if code == _REPEAT:
        entry = Entry(skeleton, recipe=recipe, repeats=reader.varint())
        if not entry.repeats or values:
            raise CorruptError("malformed .dqc header")
        check_palette(header, skeleton.parts[0])
        return entry, last_id
    if code & 7 > max(Step):
        raise CorruptError("malformed .dqc header")
    unread = Entry(skeleton, recipe=recipe, values=values)
    split = Split(Step(code & 7), bool(code >> 3 & 1), unread.map.kind if unread.map else Values.SAMPLES)
    counts = [len(split.shapes(size, unread.view)) for size in skeleton.sizes]
    layers, last_id = _read_layers(reader, code >> 4, sum(counts), last_id)
    ordered = iter(layers)
    rasters = tuple(tuple(itertools.islice(ordered, count)) for count in counts)
    return dataclasses.replace(unread, split=split, rasters=rasters), last_id


def _read_layers(reader: Reader, code: int, count: int, last_id: bytes) -> tuple[list[Layer], bytes]:
    """(layers, model id of the last layer with a model so far). code: of the first layer; the others follow."""
    layers = []
    for number in range(count):
        if number:
            code = reader.byte()
        method, is_last = (code, 0) if code in WHOLE_CODES else (code & 7, code >> 3)
        if method not in LAYER_METHODS or is_last > (method in LEARNED and bool(last_id)):
            raise CorruptError("malformed layer in the .dqc file")
        if method in LEARNED and not is_last:
            last_id = reader.take(MODEL_ID_BYTES)
        layers.append(Layer(Method(method), last_id if method in LEARNED else b""))
    return layers, last_id


def _can_repeat(entry: Entry, other: Entry) -> bool:
    """Whether an image may repeat the samples of `other`: it has its own layers, and the same header and sizes."""
    if other.skeleton is None or other.repeats:
        return False
    return entry.skeleton.sizes == other.skeleton.sizes and entry.skeleton.header == other.skeleton.header


def count_pixels(entries: Sequence[Entry]) -> int:
    """The pixels of all frames of the images that have layers."""
    return sum(entry.skeleton.area for entry in entries if entry.skeleton and not entry.repeats)


def pack_chunks(skeleton: Skeleton, values: bytes = b"") -> tuple[int, bytes]:
    """The smallest (packing, section) of a skeleton's chunks and of values; (0, b"") if there are none.

    The result is kept as long as the skeleton, because a search for the smallest file asks for it many times.
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
    return (RAW, write_varint(len(chunks)) + chunks) if chunks else (0, b"")
