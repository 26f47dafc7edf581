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

if TYPE_CHECKING:  # _PUBLIC again. For type checkers, `X as X` and assignments make names public
    from PIL.ImageFile import ImageFile as _ImageFile

    from dqcodec.base.errors import CorruptError as CorruptError
    from dqcodec.base.errors import DqcodecError as DqcodecError
    from dqcodec.base.errors import FormatError as FormatError
    from dqcodec.base.errors import LatentOverflow as LatentOverflow
    from dqcodec.base.errors import ModelError as ModelError
    from dqcodec.base.errors import RegionError as RegionError
    from dqcodec.base.errors import StackUnderflow as StackUnderflow
    from dqcodec.base.errors import SymbolError as SymbolError
    from dqcodec.base.errors import UnknownModelError as UnknownModelError
    from dqcodec.base.errors import UnsupportedImageError as UnsupportedImageError
    from dqcodec.base.errors import VerifyError as VerifyError
    from dqcodec.base.errors import WorkerError as WorkerError
    from dqcodec.codec import library as _library
    from dqcodec.codec import zoo as _zoo
    from dqcodec.codec.archive import Archive as Archive
    from dqcodec.codec.codec import Info as Info
    from dqcodec.codec.library import compress as compress
    from dqcodec.codec.library import compress_archive as compress_archive
    from dqcodec.codec.library import decompress as decompress
    from dqcodec.codec.library import decompress_png as decompress_png
    from dqcodec.codec.library import info as info

    open = _library.open_image
    find_model, load_model, model_names = _zoo.find, _zoo.load, _zoo.names

__version__ = "0.1.0"

_PUBLIC = {
    name.split(" as ")[-1]: (module, name.split(" as ")[0])
    for module, names in {
        "base.errors": (
            "CorruptError",
            "DqcodecError",
            "FormatError",
            "LatentOverflow",
            "ModelError",
            "RegionError",
            "StackUnderflow",
            "SymbolError",
            "UnknownModelError",
            "UnsupportedImageError",
            "VerifyError",
            "WorkerError",
        ),
        "codec.archive": ("Archive",),
        "codec.codec": ("Info",),
        "codec.library": ("compress", "compress_archive", "decompress", "decompress_png", "info", "open_image as open"),
        "codec.zoo": ("find as find_model", "load as load_model", "names as model_names"),
    }.items()
    for name in names
}
__all__ = sorted({*_PUBLIC, "__version__"} - {"open"})  # noqa: PLE0605  import * leaves Python's own open alone


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
