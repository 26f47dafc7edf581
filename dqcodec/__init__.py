"""dqcodec: lossless image compression with learned dequantization flows and bits-back ANS coding.

The public names are loaded when they are first used:

    compress(png_bytes, programs) -> (dqc_bytes, CompressReport)      programs: from load_model
    decompress(dqc_bytes, find_model) -> (png_bytes, DecompressReport)
    info(dqc_bytes) -> Info
    load_model(name_or_path), find_model(model_id), model_names()
    DqcodecError and the errors below it
"""

import importlib

__version__ = "0.1.0"

_PUBLIC = {
    "compress": ("codec", "compress"),
    "decompress": ("codec", "decompress"),
    "info": ("codec", "info"),
    "Info": ("codec", "Info"),
    "CompressReport": ("report", "CompressReport"),
    "DecompressReport": ("report", "DecompressReport"),
    "load_model": ("zoo", "load"),
    "find_model": ("zoo", "find"),
    "model_names": ("zoo", "names"),
    "DqcodecError": ("errors", "DqcodecError"),
    "FormatError": ("errors", "FormatError"),
    "CorruptError": ("errors", "CorruptError"),
    "UnsupportedImageError": ("errors", "UnsupportedImageError"),
    "VerifyError": ("errors", "VerifyError"),
    "ModelError": ("errors", "ModelError"),
    "UnknownModelError": ("errors", "UnknownModelError"),
    "StackUnderflow": ("errors", "StackUnderflow"),
    "LatentOverflow": ("errors", "LatentOverflow"),
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    return getattr(importlib.import_module(f".{module}", __name__), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
