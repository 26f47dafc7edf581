"""The metadata that other formats can hold: ICC profiles, Exif and XMP."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from io import BytesIO

from PIL import PngImagePlugin

_EXIF = b"Exif\0\0"  # what Exif begins with in a JPEG file; PNG and JPEG XL leave it out
_TEXT = "Raw profile type "  # keyword of a text of hexadecimal digits, as ImageMagick writes it


@dataclass(frozen=True)
class Metadata:
    """Parts of a PNG's metadata, empty if it has none. exif: a TIFF structure. xmp: XML."""

    icc: bytes = b""
    exif: bytes = b""
    xmp: bytes = b""


def of(data: bytes) -> Metadata:
    """The parts that a PNG file has, in chunks of their own or as texts of hexadecimal digits.

    Raises Exception: Pillow finds the file damaged.
    """
    with PngImagePlugin.PngImageFile(BytesIO(data)) as image:
        image.load()  # chunks may follow the pixels
        found = image.info
    icc = found.get("icc_profile") or b""
    exif = found.get("exif") or _from_text(found, "exif") or _from_text(found, "APP1")
    xmp = found.get("xmp") or _from_text(found, "xmp")
    return Metadata(icc, exif.removeprefix(_EXIF), xmp)


def in_jpegxl(metadata: Metadata) -> bytes:
    """Boxes that follow the codestream in a file of JPEG XL (ISO/IEC 18181-2), compressed by
    Brotli, as cjxl writes them.

    Profiles belong into the codestream, so they are left out.
    """
    boxes = b""
    if metadata.exif:
        boxes += _box(b"Exif", bytes(4) + metadata.exif)  # the structure begins 0 bytes further
    if metadata.xmp:
        boxes += _box(b"xml ", metadata.xmp)
    return boxes


def _box(kind: bytes, content: bytes) -> bytes:
    import imagecodecs

    packed = kind + imagecodecs.brotli_encode(content, level=11)
    return struct.pack(">I4s", 8 + len(packed), b"brob") + packed


def _from_text(found: dict, kind: str) -> bytes:
    """A text is a name, a number of bytes and the digits, on lines of their own; empty if it is damaged."""
    try:
        _, size, *digits = found[_TEXT + kind].split()
        content = bytes.fromhex("".join(digits))
        return content if len(content) == int(size) else b""
    except (KeyError, ValueError):
        return b""
