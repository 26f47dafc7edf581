"""dqcodec: lossless image compression by trained models of dequantized pixels, run on integers and coded with ANS.

The public names are loaded when they are first used:

    compress(path, PNG bytes, Pillow image or array) -> bytes         the .dqc file
    compress_archive({name: image}) -> bytes                          the same for many images: an archive
    decompress(path or bytes) -> array                                of one image, or of a region of it;
                                                                      animations have no array
    decompress_png(path or bytes) -> PNG bytes                        with all frames of an animation
    open(path) -> PIL.Image, with its frames                          or PIL.Image.open, once dqcodec is imported
    Archive(path): name -> PNG bytes                                  a mapping, read and decoded when asked for;
                                                                      Archive(path, salvage=True) for a damaged one;
                                                                      read(name) -> array
    info(path or bytes) -> Info                                       the facts in the head of a .dqc file
    load_model(name_or_path), find_model(model_id), model_names()
    DqcodecError and the errors below it
"""

import importlib
from typing import IO, TYPE_CHECKING

from PIL import Image as _Image

if TYPE_CHECKING:  # _PUBLIC again, for type checkers
    from PIL.ImageFile import ImageFile as _ImageFile

    from dqcodec.base.errors import (
        CorruptError,
        DqcodecError,
        FormatError,
        LatentOverflow,
        ModelError,
        RegionError,
        StackUnderflow,
        SymbolError,
        UnknownModelError,
        UnsupportedImageError,
        VerifyError,
        WorkerError,
    )
    from dqcodec.codec.archive import Archive
    from dqcodec.codec.codec import Info
    from dqcodec.codec.library import compress, compress_archive, decompress, decompress_png, info
    from dqcodec.codec.library import open_image as open  # noqa: F401
    from dqcodec.codec.zoo import find as find_model
    from dqcodec.codec.zoo import load as load_model
    from dqcodec.codec.zoo import names as model_names

__version__ = "0.1.0"

_PUBLIC = {
    "compress": ("codec.library", "compress"),
    "compress_archive": ("codec.library", "compress_archive"),
    "decompress": ("codec.library", "decompress"),
    "decompress_png": ("codec.library", "decompress_png"),
    "open": ("codec.library", "open_image"),
    "Archive": ("codec.archive", "Archive"),
    "info": ("codec.library", "info"),
    "Info": ("codec.codec", "Info"),
    "load_model": ("codec.zoo", "load"),
    "find_model": ("codec.zoo", "find"),
    "model_names": ("codec.zoo", "names"),
    "DqcodecError": ("base.errors", "DqcodecError"),
    "FormatError": ("base.errors", "FormatError"),
    "CorruptError": ("base.errors", "CorruptError"),
    "UnsupportedImageError": ("base.errors", "UnsupportedImageError"),
    "VerifyError": ("base.errors", "VerifyError"),
    "RegionError": ("base.errors", "RegionError"),
    "ModelError": ("base.errors", "ModelError"),
    "UnknownModelError": ("base.errors", "UnknownModelError"),
    "StackUnderflow": ("base.errors", "StackUnderflow"),
    "SymbolError": ("base.errors", "SymbolError"),
    "WorkerError": ("base.errors", "WorkerError"),
    "LatentOverflow": ("base.errors", "LatentOverflow"),
}
__all__ = [  # without open: import * leaves Python's own alone
    "Archive",
    "CorruptError",
    "DqcodecError",
    "FormatError",
    "Info",
    "LatentOverflow",
    "ModelError",
    "RegionError",
    "StackUnderflow",
    "SymbolError",
    "UnknownModelError",
    "UnsupportedImageError",
    "VerifyError",
    "WorkerError",
    "__version__",
    "compress",
    "compress_archive",
    "decompress",
    "decompress_png",
    "find_model",
    "info",
    "load_model",
    "model_names",
]


if not TYPE_CHECKING:  # a type checker that saw this would take any name for public

    def __getattr__(name: str):
        if name not in _PUBLIC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, attribute = _PUBLIC[name]
        return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})


def _open_by_pillow(file: IO[bytes], name: str | bytes) -> "_ImageFile":
    from dqcodec.codec.pillow_plugin import DqcImageFile

    return DqcImageFile(file, name)


def _is_dqc(start: bytes) -> bool:
    """Whether a file with this start is a .dqc file of one image: the fourth byte has no bit 6 in short files."""
    return start.startswith(b"\x89DQ") and len(start) > 3 and (start[3] == ord("C") or not start[3] & 64)


_Image.register_open("DQC", _open_by_pillow, _is_dqc)
_Image.register_extension("DQC", ".dqc")
