"""The chunks of a skeleton <-> few bytes. A part of the .dqc format.

Each chunk becomes an item, in the order of the PNG. A byte 0 marks the place of each raster. If there is only one
raster and no chunk follows it, the byte is left out. The item of a chunk:

    1     code    bits 0-6: number of its type in the list below, from 1 on; 127: the type follows, 4 letters
                  bit 7: set if a varint follows, the length of the body; otherwise the list has the length
    *     body

Or it is one byte, the code of a whole chunk that is frequent.

Before all items there may be one with the code 126, a varint, the length, and a body that is no chunk: the values of
format/values.py.

An item may also have the code 125; an ordinary item follows, whose body has the form of inflated.py. The last item may
have the code 124, a varint, the length, and the bytes after IEND.

format/palette.py may code a PLTE chunk and its tRNS chunk by the colours of the image instead.
"""

from __future__ import annotations

import struct

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.png import inflated
from dqcodec.png.skeleton import MAX_PARTS, Chunk, Header, InflatedChunk, Skeleton

# Types and usual lengths: the lengths that the PNG specification gives, otherwise the most common one.
_TYPES = (
    (b"PLTE", 768), (b"tRNS", 1), (b"gAMA", 4), (b"cHRM", 32), (b"sRGB", 1), (b"iCCP", 0), (b"sBIT", 4), (b"bKGD", 6),
    (b"pHYs", 9), (b"tIME", 7), (b"tEXt", 0), (b"zTXt", 0), (b"iTXt", 0), (b"eXIf", 0), (b"hIST", 0), (b"sPLT", 0),
    (b"oFFs", 9), (b"cICP", 4), (b"mDCV", 24), (b"cLLI", 8), (b"acTL", 8), (b"fcTL", 22),
    (b"sBIT", 1), (b"sBIT", 2), (b"sBIT", 3), (b"bKGD", 1), (b"bKGD", 2), (b"tRNS", 2), (b"tRNS", 6),
)  # fmt: skip
_CODES = {each: code for code, each in enumerate(_TYPES, 1)}
_LONG_CODES = {kind: code for code, (kind, _) in reversed(list(enumerate(_TYPES, 1)))}  # of any length
_SRGB_COLORS = struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
# Whole chunks, their codes from 64 on: what format/palette.py makes of most palettes, and what programs often write.
_WHOLE = (
    (b"PLTE", b""), (b"tRNS", b""),
    (b"gAMA", struct.pack(">I", 45455)), (b"gAMA", struct.pack(">I", 45000)), (b"gAMA", struct.pack(">I", 100000)),
    (b"sRGB", b"\0"), (b"cHRM", _SRGB_COLORS),
    (b"sBIT", b"\b"), (b"sBIT", b"\b\b"), (b"sBIT", b"\b\b\b"), (b"sBIT", b"\b\b\b\b"),
    *((b"pHYs", struct.pack(">IIB", each, each, 1)) for each in (2834, 2835, 3543, 3779, 3780, 5669)),
    (b"bKGD", b"\0\0"), (b"bKGD", b"\0\xff"), (b"bKGD", bytes(6)), (b"bKGD", b"\0\xff" * 3),
    (b"tEXt", b"Software\0Adobe ImageReady"), (b"tEXt", b"Software\0www.inkscape.org"),
    (b"tEXt", b"Comment\0Created with GIMP"),
)  # fmt: skip
_WHOLE_CODES = {chunk: code for code, chunk in enumerate(_WHOLE, 64)}
_RASTER, _TAIL, _INFLATED, _VALUES, _OTHER, _HAS_LENGTH = 0, 124, 125, 126, 127, 128
_MALFORMED = "malformed chunks in the .dqc file"


def pack(skeleton: Skeleton, values: bytes = b"", *, inflate: bool = True) -> bytes:
    """The items of all chunks and the tail, and of values unless they are empty. inflate: chunks with compressed
    contents have the form of inflated.py where possible.
    """
    parts, left = [], inflated.MAX_BYTES
    for chunks in skeleton.deflated().parts:
        items = []
        for chunk in chunks:
            found = inflate and inflated.pack(chunk.kind, chunk.body, left)
            if found:
                form, content_bytes = found
                left -= content_bytes
                items.append(bytes([_INFLATED]) + _item(Chunk(chunk.kind, form)))
            else:
                items.append(_item(chunk))
        parts.append(b"".join(items))
    first = bytes([_VALUES]) + write_varint(len(values)) + values if values else b""
    last = bytes([_TAIL]) + write_varint(len(skeleton.tail)) + skeleton.tail if skeleton.tail else b""
    return first + (parts[0] if len(parts) == 2 and not parts[1] else bytes([_RASTER]).join(parts)) + last


def unpack(data: bytes, header: Header) -> tuple[Skeleton, bytes]:
    """The inverse of pack: the skeleton, and the values or b"".

    Raises CorruptError: the items are malformed.
    """
    parts: list[list[Chunk]] = [[]]
    reader = Reader(data, error=_MALFORMED)
    values, tail, left = b"", b"", inflated.MAX_BYTES
    if data[:1] == bytes([_VALUES]):
        _, values = reader.byte(), reader.take(reader.varint())
        if not values:
            raise CorruptError("malformed values in the .dqc file")
    count = 0
    while reader.position < reader.end:
        count += 1
        if count > MAX_PARTS:
            raise CorruptError("too many chunks in the .dqc file")
        code = reader.byte()
        if code == _RASTER:
            parts.append([])
        elif code in _WHOLE_CHUNKS:
            parts[-1].append(_WHOLE_CHUNKS[code])
        elif code == _TAIL:
            tail = reader.take(reader.varint())
            if not tail or reader.position < reader.end:
                raise CorruptError(_MALFORMED)
        elif code == _INFLATED:
            chunk = _read_item(reader.byte(), reader)
            if chunk.kind not in inflated.KINDS:
                raise CorruptError(_MALFORMED)
            left -= inflated.content_bytes(chunk.body, left)
            parts[-1].append(InflatedChunk(*chunk))
        else:
            parts[-1].append(_read_item(code, reader))
    skeleton = Skeleton(header, tuple(map(tuple, parts if len(parts) > 1 else [*parts, ()])), tail)
    skeleton.check()
    return skeleton, values


_KINDS = {code: each for each, code in _CODES.items()}
_WHOLE_CHUNKS = {code: Chunk(*chunk) for chunk, code in _WHOLE_CODES.items()}


def _item(chunk: Chunk) -> bytes:
    """The item of a chunk."""
    if (chunk.kind, chunk.body) in _WHOLE_CODES:
        return bytes([_WHOLE_CODES[chunk.kind, chunk.body]])
    code, length = _CODES.get((chunk.kind, len(chunk.body))), b""
    if code is None:
        code = _LONG_CODES.get(chunk.kind, _OTHER)
        if code != _OTHER or chunk.body:
            code, length = code | _HAS_LENGTH, write_varint(len(chunk.body))
    return b"".join((bytes([code]), chunk.kind if code & 127 == _OTHER else b"", length, chunk.body))


def _read_item(code: int, reader: Reader) -> Chunk:
    """The chunk of an item with this code: the inverse of _item. Raises CorruptError."""
    kind, length = _KINDS.get(code & 127, (b"", 0))
    if code & 127 == _OTHER:
        kind = reader.take(4)
    if code & _HAS_LENGTH:
        length = reader.varint()
    if not kind.isalpha():
        raise CorruptError(_MALFORMED)
    return Chunk(kind, reader.take(length))
