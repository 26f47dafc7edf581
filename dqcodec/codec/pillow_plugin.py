"""PIL.Image.open for .dqc files: opening reads the header, and loading decodes. `import dqcodec` registers it.

A loaded image is what Pillow makes of the PNG that the file holds: same mode, palette, texts and frames. How many frames there
are is in the header; going to another one loads all of them.
"""

from __future__ import annotations

import io
from typing import IO

from PIL import ImageFile
from PIL.PngImagePlugin import PngImageFile

from dqcodec.base.errors import CorruptError, DqcodecError
from dqcodec.codec import codec, zoo
from dqcodec.format.container import MAGIC, VERSION, Reader, read_heads
from dqcodec.format.split import Step
from dqcodec.png import MAX_PIXELS, Skeleton, chunks

_HEAD_BYTES = 1 << 12  # to begin with
_PALETTE = {b"PLTE", b"tRNS"}


class DqcImageFile(ImageFile.ImageFile):
    """An image of which the header is read; by `load` it becomes a PngImageFile."""

    format = "DQC"
    format_description = "dqcodec"

    def _open(self) -> None:
        try:
            head = PngImageFile(io.BytesIO(_head(self.fp)))
        except DqcodecError as error:
            raise SyntaxError(str(error)) from error  # what Pillow expects of a file that is not of the format
        self._size, self._mode, self.info, self.palette = head.size, head.mode, head.info, head.palette
        self.n_frames, self.is_animated, self.default_image = head.n_frames, head.is_animated, head.default_image

    def load(self):
        self._decode()
        return self.load()

    def seek(self, frame: int) -> None:
        if self._seek_check(frame):
            self._decode()
            self.seek(frame)

    def verify(self) -> None:
        """Check the file's CRC and structure, not its pixels; raises OSError. Closes the file, as Pillow's do."""
        try:
            codec.info(self._data())
        except DqcodecError as error:
            raise OSError(str(error)) from error
        super().verify()

    def __reduce__(self) -> tuple:
        """An image that is not loaded is pickled as its file."""
        return _reopened, (self._data(), self.filename, self.info)

    def _data(self) -> bytes:
        if self.fp is None:
            raise ValueError("Operation on closed image")
        self.fp.seek(0)
        return self.fp.read()

    def _decode(self) -> None:
        """Become the image of the PNG file."""
        try:
            data, _ = codec.decompress(self._data(), zoo.find, repack=True)
        except DqcodecError as error:
            raise OSError(str(error)) from error
        image = PngImageFile(io.BytesIO(data))
        image.filename, image.format = self.filename, self.format
        if self._exclusive_fp:
            self.fp.close()
        self.__class__, self.__dict__ = image.__class__, image.__dict__


def _reopened(data: bytes, filename: str, info: dict) -> DqcImageFile:
    image = DqcImageFile(io.BytesIO(data), filename)
    image.info = info
    return image


def _head(file: IO[bytes]) -> bytes:
    """The PNG file of a .dqc file, but for its pixels; reads no more of it than that takes."""
    data, count = file.read(_HEAD_BYTES), _HEAD_BYTES
    while True:
        reader = Reader(data, len(MAGIC) + 1, len(data))
        try:
            if data[len(MAGIC)] != VERSION:
                raise CorruptError("another version")
            (entry,) = read_heads(reader, 1, MAX_PIXELS)
            break
        except (CorruptError, IndexError):  # perhaps for want of the rest
            more = file.read(count)
            if not more:
                raise
            data, count = data + more, 2 * count
    if entry.skeleton is None:
        return reader.rest() + file.read()
    left_out = _PALETTE if entry.split.step == Step.COLORS else set()
    before = tuple(chunk for chunk in entry.skeleton.parts[0] if chunk.kind not in left_out)
    return chunks.assemble(Skeleton(entry.skeleton.header, (before, ())), [[b""]])
