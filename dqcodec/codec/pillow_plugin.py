"""PIL.Image.open for .dqc files. `import dqcodec` registers it.

Opening reads the header; loading decodes. A loaded image is the same as Pillow's image of the PNG: mode, palette, texts
and frames. The header holds the number of frames; seeking to another frame decodes all.
"""

from __future__ import annotations

import io
import struct
from typing import IO, TYPE_CHECKING, Any

from PIL import Image, ImageFile
from PIL.PngImagePlugin import PngImageFile

from dqcodec.base.errors import CorruptError, DqcodecError
from dqcodec.base.reader import Reader
from dqcodec.codec import codec, zoo
from dqcodec.format.container import MAGIC, SHORT_MAGIC, VERSION, is_short
from dqcodec.format.head import read_heads
from dqcodec.format.split import Step
from dqcodec.png import MAX_PIXELS, Skeleton, chunks

if TYPE_CHECKING:
    from PIL.ImagePalette import ImagePalette

_HEAD_BYTES = 1 << 12  # read first; more if the head is longer
_PALETTE = {b"PLTE", b"tRNS"}


class DqcImageFile(ImageFile.ImageFile):
    """A .dqc image whose header is read. `load` turns it into a PngImageFile. Errors are OSError, as Pillow's."""

    format = "DQC"
    format_description = "dqcodec"

    def _open(self) -> None:
        try:
            data, self._has_palette = _head(self.fp)
        except DqcodecError as error:
            raise SyntaxError(str(error)) from error
        head = _as_png(data, SyntaxError)  # Pillow then tries other formats
        self._size, self._mode, self.info, self.palette = head.size, head.mode, head.info, head.palette
        self._head_info, self._head_palette = dict(head.info), head.palette
        self.n_frames, self.is_animated, self.default_image = head.n_frames, head.is_animated, head.default_image

    @property
    def info(self) -> dict:
        """As of Pillow's PNG images. If the head does not hold the palette, the pixels are
        decoded first; raises OSError.
        """
        return self._with_palette("info")

    @info.setter
    def info(self, info: dict) -> None:
        self.__dict__["info"] = info

    @property
    def palette(self) -> ImagePalette | None:
        """As of Pillow's PNG images; see info."""
        return self._with_palette("palette")

    @palette.setter
    def palette(self, palette: ImagePalette | None) -> None:
        self.__dict__["palette"] = palette

    def _with_palette(self, name: str) -> Any:
        """An attribute, of the decoded image if only it has the palette."""
        if self.__dict__.get("_has_palette", True):
            return self.__dict__[name]
        self._decode()
        return getattr(self, name)

    def load(self):
        """Decode all frames, and load the current one; raises OSError."""
        self._decode()
        return self.load()

    def seek(self, frame: int) -> None:
        """Go to a frame, from 0 on; raises EOFError (no such frame), OSError."""
        if self._seek_check(frame):
            self._decode()
            self.seek(frame)

    def getexif(self) -> Image.Exif:
        """The Exif, as of Pillow's PNG images: it may lie behind the pixels, so they are decoded first; raises OSError."""
        if "exif" not in self.info:
            self._decode()
            return self.getexif()
        return super().getexif()

    @property
    def text(self) -> dict[str, str]:
        """All texts, as of Pillow's PNG images; raises OSError."""
        self._decode()
        return self.text

    def verify(self) -> None:
        """Check the CRC and structure of the file, not its pixels unless it is short, and close it; raises OSError."""
        data = self._data()
        try:
            codec.info(data)
            if is_short(data):
                codec.decompress(data, zoo.find)
        except DqcodecError as error:
            raise OSError(str(error)) from error
        super().verify()

    def __reduce__(self) -> tuple:
        """Pickle an image that is not loaded as its file's bytes."""
        return _reopened, (self._data(), self.filename, self.__dict__["info"])

    def _data(self) -> bytes:
        if self.fp is None:
            raise ValueError("Operation on closed image")
        self.fp.seek(0)
        return self.fp.read()

    def _decode(self) -> None:
        """Decode the file and become the PngImageFile of its PNG. Changes that were made before stay."""
        try:
            data, _ = codec.decompress(self._data(), zoo.find, repack=True)
        except DqcodecError as error:
            raise OSError(str(error)) from error
        image = _as_png(data, OSError)
        image.filename, image.format = self.filename, self.format
        if self._exclusive_fp:
            self.fp.close()
        info, palette = self.__dict__["info"], self.__dict__["palette"]
        for key in self._head_info.keys() - info.keys():
            image.info.pop(key, None)
        image.info.update((key, value) for key, value in info.items() if self._head_info.get(key) is not value)
        if palette is not self._head_palette:
            image.palette, image._mode = palette, self._mode
        self.__class__, self.__dict__ = image.__class__, image.__dict__


def _reopened(data: bytes, filename: str, info: dict) -> DqcImageFile:
    image = DqcImageFile(io.BytesIO(data), filename)
    image.info = info
    return image


def _as_png(data: bytes, kind: type[Exception]) -> PngImageFile:
    """Pillow's image of a PNG file. Raises `kind`: Pillow refuses one of its chunks."""
    try:
        return PngImageFile(io.BytesIO(data))
    except (SyntaxError, ValueError, struct.error) as error:
        raise kind(f"Pillow cannot read the PNG: {error}") from error


def _head(file: IO[bytes]) -> tuple[bytes, bool]:
    """A PNG file without pixels, from the head of a .dqc file, and whether it has all that
    the head says of the palette.

    Only the head is read. Raises CorruptError.
    """
    data, count = file.read(_HEAD_BYTES), _HEAD_BYTES
    while True:
        reader = Reader(data, len(SHORT_MAGIC) if is_short(data) else len(MAGIC) + 1)
        try:
            if not is_short(data) and data[len(MAGIC)] != VERSION:
                raise CorruptError("another version")
            (entry,) = read_heads(reader, 1, MAX_PIXELS)
            break
        except (CorruptError, IndexError):  # perhaps the head is longer
            more = file.read(count)
            if not more:
                raise
            data, count = data + more, 2 * count
    if entry.skeleton is None:
        return reader.rest() + file.read(), True
    has_palette = entry.split.step != Step.COLORS
    chunks_before = entry.skeleton.deflated().parts[0]
    before = tuple(chunk for chunk in chunks_before if has_palette or chunk.kind not in _PALETTE)
    return chunks.assemble(Skeleton(entry.skeleton.header, (before, ())), [[b""]]), has_palette
