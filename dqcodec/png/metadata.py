"""The chunks of a skeleton <-> few bytes. A part of the .dqc format.

Each chunk becomes an item, in the order of the PNG. A byte 0 marks the place of each raster. If there is only one
raster and no chunk follows it, the byte is left out. The item of a chunk:

    1     code    bits 0-6: number of its type in the list below, from 1 on; 127: the type follows, 4 letters
                  bit 7: set if a varint follows, the length of the body; otherwise the list has the length
    *     body

Before all items there may be one with the code 126, a varint, the length, and a body that is no chunk: the values of
format/values.py.

format/palette.py may code a PLTE chunk and its tRNS chunk by the colours of the image instead.
"""

from __future__ import annotations

from dqcodec.base.errors import CorruptError
from dqcodec.base.varint import read_varint, write_varint
from dqcodec.png.chunks import MAX_PARTS, Chunk, Header, Skeleton

# type -> usual length: the length that the PNG specification gives, otherwise the most common one.
_TYPES = {
    b"PLTE": 768, b"tRNS": 1, b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"iCCP": 0, b"sBIT": 4, b"bKGD": 6, b"pHYs": 9,
    b"tIME": 7, b"tEXt": 0, b"zTXt": 0, b"iTXt": 0, b"eXIf": 0, b"hIST": 0, b"sPLT": 0, b"oFFs": 9, b"cICP": 4,
    b"mDCV": 24, b"cLLI": 8, b"acTL": 8, b"fcTL": 22,
}  # fmt: skip
_CODES = {kind: code for code, kind in enumerate(_TYPES, 1)}
_RASTER, _VALUES, _OTHER, _HAS_LENGTH = 0, 126, 127, 128
# The preset dictionary for deflate: texts that many programs write.
DICTIONARY = b"".join(
    (
        b"Creation Time\0Description\0Copyright\0Disclaimer\0Warning\0Source\0Comment\0Created with GIMP\0Title\0Author\0",
        b'XML:com.adobe.xmp\0\0\0\0\0<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core',
        b'"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about="" ',
        b'xmlns:xmp="http://ns.adobe.com/xap/1.0/"></rdf:Description></rdf:RDF></x:xmpmeta>',
        b'<?xpacket end="r"?>CC Attribution-ShareAlike http://creativecommons.org/licenses/by-sa/4.0/',
        b"Raw profile type exif\0date:create\0date:modify\0T00:00:00+00:00\0Software\0Matplotlib version, https://matplotlib.org/",
        b"\x03\0\0z&\0\0\x80\x84\0\0\xfa\0\0\0\x80\xe8\0\0u0\0\0\xea`\0\0:\x98\0\0\x17p\x04\0\0\xb1\x8f\x05\0",
        b"\x09\0\0\x0e\xc4\0\0\x0e\xc4\x01\x09\0\0\x0b\x12\0\0\x0b\x12\x01\x09\0\0\x0b\x13\0\0\x0b\x13\x01",
        b"\x8b\x19Software\0Adobe ImageReady",
        b"\x07\x08\x08\x08\x08\x09\0\0\r\xd7\0\0\r\xd7\x01\x8b\x1aSoftware\0www.inkscape.org",
    )
)


def pack(skeleton: Skeleton, values: bytes = b"") -> bytes:
    """The items of all chunks, and of values unless they are empty."""
    parts = [b"".join(map(_item, part)) for part in skeleton.parts]
    first = bytes([_VALUES]) + write_varint(len(values)) + values if values else b""
    return first + (parts[0] if len(parts) == 2 and not parts[1] else bytes([_RASTER]).join(parts))


def unpack(data: bytes, header: Header) -> tuple[Skeleton, bytes]:
    """The inverse of pack: the skeleton, and the values or b"".

    Raises:
        CorruptError: the items are malformed.
    """
    parts: list[list[Chunk]] = [[]]
    position = count = 0
    values = b""
    if data[:1] == bytes([_VALUES]):
        length, position = read_varint(data, 1)
        values, position = data[position : position + length], position + length
        if not values or position > len(data):
            raise CorruptError("malformed values in the .dqc file")
    while position < len(data):
        code, position = data[position], position + 1
        count += 1
        if count > MAX_PARTS:
            raise CorruptError("too many chunks in the .dqc file")
        if code == _RASTER:
            parts.append([])
            continue
        kind = _KINDS.get(code & 127, b"")
        if code & 127 == _OTHER:
            kind, position = data[position : position + 4], position + 4
        length = _TYPES.get(kind, 0)
        if code & _HAS_LENGTH:
            length, position = read_varint(data, position)
        body, position = data[position : position + length], position + length
        if len(kind) != 4 or not kind.isalpha() or position > len(data):
            raise CorruptError("malformed chunks in the .dqc file")
        parts[-1].append(Chunk(kind, body))
    skeleton = Skeleton(header, tuple(map(tuple, parts if len(parts) > 1 else [*parts, ()])))
    skeleton.check()
    return skeleton, values


_KINDS = {code: kind for kind, code in _CODES.items()}


def _item(chunk: Chunk) -> bytes:
    """The item of a chunk."""
    code, length = _CODES.get(chunk.kind, _OTHER), b""
    if len(chunk.body) != _TYPES.get(chunk.kind, 0):
        code, length = code | _HAS_LENGTH, write_varint(len(chunk.body))
    return b"".join((bytes([code]), chunk.kind if code & 127 == _OTHER else b"", length, chunk.body))
