"""A PNG without its rasters: its header and all chunks around the image data, verbatim and in order.

With the rasters, a `Skeleton` gives the PNG again; see chunks.py for what is lost.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dqcodec.base.errors import CorruptError, UnsupportedImageError
from dqcodec.png import inflated
from dqcodec.png.color_types import PALETTE, SAMPLES

KINDS = tuple(
    (color_type, bit_depth)
    for color_type, bit_depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items()
    for bit_depth in bit_depths
)
_NOT_SURROUNDING = {b"IHDR", b"IDAT", b"fdAT", b"IEND"}
MAX_PARTS = 1 << 12  # the largest number of rasters and chunks of a skeleton
PREVIOUS, _OVER = 2, 1  # ways to dispose of a frame, to blend it
MAX_TAIL_BYTES = 1 << 20  # of the bytes after IEND
# Chunks that describe the bytes of the file. They are wrong after a new packing: iDOT has offsets into the data
# (screenshots of macOS); dSIG and caBX (content credentials of C2PA) have signatures and hashes of chunks.
_PACKED = {b"iDOT", b"dSIG", b"caBX"}
_ANIMATING = {b"acTL", b"fcTL"}
# Chunks that change how the image looks, or when a frame is shown. All others are only information about the image.
_MEANING = {b"PLTE", b"tRNS", b"acTL", b"fcTL", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"cICP", b"mDCV", b"cLLI", b"sBIT"}


class Chunk(NamedTuple):
    """A chunk without length and CRC. The body of an fcTL chunk lacks the 4 bytes of its sequence number."""

    kind: bytes
    body: bytes


class InflatedChunk(Chunk):
    """A chunk as a head has it: the body has the form of inflated.py. Skeleton.deflated gives the chunk of the PNG."""

    __slots__ = ()


class Header(NamedTuple):
    """IHDR without the fields of the packing. width, height: of the whole canvas, pixels."""

    width: int
    height: int
    color_type: int
    bit_depth: int

    @property
    def samples(self) -> int:
        """Samples per pixel in the file; 1 for a palette index."""
        return SAMPLES[self.color_type]

    def pack(self, interlace: int) -> bytes:
        """The body of IHDR."""
        return struct.pack(">IIBBBBB", self.width, self.height, self.bit_depth, self.color_type, 0, 0, interlace)


class Frame(NamedTuple):
    """The place of a raster on the canvas of an animation, pixels. disposal: PREVIOUS if the canvas is afterwards as
    before. is_over: whether the frame is blended over the canvas."""

    width: int
    height: int
    left: int
    top: int
    disposal: int
    is_over: bool


@dataclass(frozen=True)
class Skeleton:
    """A PNG without its rasters.

    parts: the chunks before each raster, and the chunks after the last one; one part more than rasters. tail: the bytes
    after IEND; some programs write a second IEND.
    """

    header: Header
    parts: tuple[tuple[Chunk, ...], ...] = ((), ())
    tail: bytes = b""

    @functools.cached_property
    def frames(self) -> tuple[Frame, ...]:
        """The frame that each raster is. A default image that is no part of the animation has the canvas for its own."""
        controls = [next((chunk for chunk in part if chunk.kind == b"fcTL"), None) for part in self.parts[:-1]]
        return tuple(
            _frame(self.header, control) if control else Frame(self.header.width, self.header.height, 0, 0, 0, False)
            for control in controls
        )

    @functools.cached_property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """(height, width) of each raster."""
        return tuple((frame.height, frame.width) for frame in self.frames)

    @property
    def area(self) -> int:
        """The pixels of all rasters."""
        return sum(height * width for height, width in self.sizes)

    @property
    def count(self) -> int:
        """The number of rasters and chunks, and 1."""
        return len(self.parts) + sum(map(len, self.parts))

    def deflated(self) -> Skeleton:
        """The skeleton with the chunks of the PNG. Deflating takes up to seconds, so heads are read without it.

        Raises CorruptError: the content of a chunk is too repetitive.
        """
        if not any(isinstance(chunk, InflatedChunk) for part in self.parts for chunk in part):
            return self
        parts = tuple(tuple(map(_deflated, part)) for part in self.parts)
        return dataclasses.replace(self, parts=parts)

    @property
    def kinds(self) -> set[bytes]:
        """The types of all chunks."""
        return {chunk.kind for part in self.parts for chunk in part}

    def find(self, kind: bytes) -> bytes | None:
        """The body of the first chunk of this type before the default image, or None."""
        return next((chunk.body for chunk in self.parts[0] if chunk.kind == kind), None)

    def replace(self, bodies: dict[bytes, bytes]) -> Skeleton:
        """The skeleton with new bodies for chunks before the default image. bodies: type -> body."""
        first = tuple(chunk._replace(body=bodies.get(chunk.kind, chunk.body)) for chunk in self.parts[0])
        return dataclasses.replace(self, parts=(first, *self.parts[1:]))

    def stripped(self) -> Skeleton:
        """The skeleton without what changes neither samples nor their meaning: texts, times, Exif, the tail and more."""
        kept = self._filtered(lambda kind: kind in _MEANING)
        return dataclasses.replace(kept, tail=b"") if kept.tail else kept

    def repacked(self) -> Skeleton:
        """The skeleton without chunks that describe the file's bytes: iDOT, dSIG, caBX. A new packing makes them wrong.

        All other chunks stay. Many of them are unsafe to copy by their names, because they depend on the samples, the
        palette or the order of chunks; none of these change here.
        """
        return self._filtered(lambda kind: kind not in _PACKED)

    def still(self) -> Skeleton:
        """The skeleton without chunks of an animation, for one raster."""
        return self._filtered(lambda kind: kind not in _ANIMATING)

    def _filtered(self, keeps: Callable[[bytes], bool]) -> Skeleton:
        """The skeleton with some types of chunks; itself if it has no others."""
        parts = tuple(tuple(chunk for chunk in part if keeps(chunk.kind)) for part in self.parts)
        return self if parts == self.parts else dataclasses.replace(self, parts=parts)

    def lost(self, kept: Skeleton) -> tuple[str, ...]:
        """The types of chunks that are in this skeleton, but not in `kept`; also `bytes after IEND`."""
        mine, others = ({show(chunk.kind): None for part in each.parts for chunk in part} for each in (self, kept))
        tail = ["bytes after IEND"] if self.tail and not kept.tail else []
        return (*(kind for kind in mine if kind not in others), *tail)

    def check(self) -> None:
        """Check that these parts can be in a PNG.

        Raises CorruptError: they cannot.
        """
        if self.count > MAX_PARTS:
            raise CorruptError("too many chunks")
        if len(self.tail) > MAX_TAIL_BYTES:
            raise CorruptError("too many bytes after IEND")
        kinds = [[chunk.kind for chunk in part] for part in self.parts]
        for kind in itertools.chain(*kinds):
            if not surrounds(kind):
                raise CorruptError(f"a chunk {show(kind)} cannot be kept beside the image data")
        first, *others, last = (part.count(b"fcTL") for part in kinds)
        is_animated = first + len(others) > 0
        if first > 1 or {*others} - {1} or last or is_animated != (self.find(b"acTL") is not None):
            raise CorruptError("an animated PNG's frames do not match its fcTL and acTL chunks")
        if self.frames[0][:2] != self.header[:2]:
            raise CorruptError("an animated PNG's first frame does not have the size of its canvas")
        if sum(part.count(b"PLTE") for part in kinds) > 1:
            raise CorruptError("PNG with two palettes")
        if self.header.color_type == PALETTE and self.find(b"PLTE") is None:
            raise CorruptError("PNG without a palette")


def _deflated(chunk: Chunk) -> Chunk:
    """The chunk of the PNG."""
    return Chunk(chunk.kind, inflated.deflated(chunk.body)) if isinstance(chunk, InflatedChunk) else chunk


def surrounds(kind: bytes) -> bool:
    """Whether a chunk of this type can be kept beside the image data."""
    return kind not in _NOT_SURROUNDING and not is_unknown_critical(kind)


def check_size(width: int, height: int, max_pixels: int, skeleton: Skeleton | None = None) -> None:
    """Raise UnsupportedImageError if an image, or all its rasters by its skeleton, have more than `max_pixels`."""
    if (skeleton.area if skeleton else width * height) > max_pixels:
        raise UnsupportedImageError(f"{width} x {height} is more than the limit of {max_pixels} pixels")


def check_palette(header: Header, chunks: Sequence[Chunk]) -> None:
    """Check the palette in the chunks before the default image, with the rules of libpng.

    Raises CorruptError: the image needs a palette and has none, or has two, or one of a wrong length.
    """
    palettes = [chunk.body for chunk in chunks if chunk.kind == b"PLTE"]
    if len(palettes) > 1:
        raise CorruptError("PNG with two palettes")
    if header.color_type == PALETTE:
        if not palettes:
            raise CorruptError("PNG without a palette")
        if len(palettes[0]) % 3 or not 0 < len(palettes[0]) <= 768:
            raise CorruptError("PNG with a palette of an invalid length")


def _frame(header: Header, control: Chunk) -> Frame:
    """The frame that a fcTL chunk announces.

    Raises CorruptError: it is malformed, or does not lie within the canvas.
    """
    if len(control.body) != 22:
        raise CorruptError("an animated PNG has a malformed fcTL chunk")
    width, height, left, top, disposal, blending = struct.unpack(">IIII4xBB", control.body)
    if not (0 < width <= header.width - left and 0 < height <= header.height - top):
        raise CorruptError("a frame of an animated PNG lies outside of its canvas")
    return Frame(width, height, left, top, disposal, blending == _OVER)


def is_unknown_critical(kind: bytes) -> bool:
    """Whether a decoder must know this type of chunk to show the image, and this package does not."""
    return kind[:1].isupper() and kind != b"PLTE"


def show(kind: bytes) -> str:
    """The type of a chunk as text."""
    return kind.decode("ascii", "replace")
