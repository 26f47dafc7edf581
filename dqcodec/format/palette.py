"""Palettes: indices <-> colours, and the table of a palette coded with the help of the image's own colours.

A table is (n, 3 or 4) uint8, n at most 256: the colours of PLTE, and the alphas of tRNS if the PNG has that chunk.

The decoder knows the u colours of the image before it reads the table. So the table is coded as a permutation of them,
and only the n - u entries that no pixel uses are kept as colours. `compact` puts this code into the bodies of PLTE and
tRNS:

    PLTE   varint n
           1 byte, the sort order of the u colours: an index of `_ORDERS`
           (n - u) x (3 or 4) bytes: the unused entries
           a little-endian number: n digits of mixed radix, the first digit is the lowest
    tRNS   varint, the number of alphas in the original chunk

Most palettes have the colours of the image alone, in the order of their first appearance: PLTE is then empty. tRNS is
empty if its last alpha is the last that is not 255.

A digit says which of the remaining colours comes next. They are counted cyclically, from the one after the previous
entry. A digit equal to their number stands for the next unused entry. The radix is their number, plus 1 while unused
entries remain. docs/format.md has the decoder's loop.
"""

from __future__ import annotations

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import read_varint, write_varint
from dqcodec.png import Skeleton
from dqcodec.png.skeleton import check_palette


def table(skeleton: Skeleton) -> np.ndarray:
    """The table (n, 3 or 4) uint8 of a palette PNG; raises CorruptError: a malformed PLTE, or more alphas than
    colours."""
    check_palette(skeleton.header, skeleton.parts[0])
    colors, alphas = np.frombuffer(skeleton.find(b"PLTE"), np.uint8).reshape(-1, 3), skeleton.find(b"tRNS")
    if alphas is None:
        return colors
    if len(alphas) > len(colors):
        raise CorruptError("PNG with more alphas than colours")
    opaque = bytes([255]) * (len(colors) - len(alphas))
    return np.column_stack([colors, np.frombuffer(alphas + opaque, np.uint8)])


def channels(skeleton: Skeleton) -> int:
    """The channels of the table, 3 or 4."""
    return 3 + (skeleton.find(b"tRNS") is not None)


def indices(colors: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Colours (H, W, C) -> indices (H, W, 1) uint8: for each colour its first index in the table `entries` (n, C).

    Raises CorruptError: a colour is not in the table.
    """
    known, wanted = numbers(entries), numbers(colors)
    order = np.argsort(known, kind="stable")
    found = order[np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)]
    if not np.array_equal(known[found], wanted):
        raise CorruptError("a colour is not in the palette")
    return found.astype(np.uint8)[..., None]


def numbers(colors: np.ndarray) -> np.ndarray:
    """A number for each colour, its first channel lowest: (..., C) uint8 or uint16 -> (...) uint64."""
    bits = 8 * colors.dtype.itemsize
    return sum(colors[..., channel].astype(np.uint64) << bits * channel for channel in range(colors.shape[-1]))


def brightness(red: np.ndarray, green: np.ndarray, blue: np.ndarray) -> np.ndarray:
    """The luma of colours, in thousandths (ITU-R BT.601)."""
    return red * 299 + green * 587 + blue * 114


def compact(skeleton: Skeleton, rasters: list[np.ndarray]) -> Skeleton:
    """Code the table in a skeleton, given the colours (H, W, C) uint8 of every raster."""
    entries = table(skeleton)
    code = b""
    if not np.array_equal(entries, _ordered(rasters, 0)):
        code = min((_encode(entries, _ordered(rasters, order), order) for order in range(len(_ORDERS))), key=len)
    alphas = skeleton.find(b"tRNS")
    count = b"" if alphas is None or len(alphas) == _least_alphas(entries) else write_varint(len(alphas))
    return skeleton.replace({b"PLTE": code, b"tRNS": count})


def expand(skeleton: Skeleton, rasters: list[np.ndarray]) -> Skeleton:
    """The inverse of compact; raises CorruptError: the code is malformed."""
    entries = _decode(skeleton.find(b"PLTE"), rasters)
    bodies = {b"PLTE": entries[:, :3].tobytes()}
    if entries.shape[1] == 4:
        count = skeleton.find(b"tRNS")
        length, end = read_varint(count, 0) if count else (_least_alphas(entries), 0)
        if length > len(entries) or end != len(count):
            raise CorruptError(_MALFORMED)
        bodies[b"tRNS"] = entries[:length, 3].tobytes()
    return skeleton.replace(bodies)


def _least_alphas(entries: np.ndarray) -> int:
    """The alphas of a table (n, 4) without those of 255 at its end."""
    return int(np.flatnonzero(entries[:, 3] < 255).max(initial=-1)) + 1


_ORDERS = (
    # by first appearance, row by row
    lambda keys, first, count: first,
    # by value: red is the lowest byte, alpha the highest
    lambda keys, first, count: keys,
    # the most frequent first, then by first appearance
    lambda keys, first, count: first - (count << 32),
    # by brightness, then by value
    lambda keys, first, count: keys + (brightness(keys & 255, keys >> 8 & 255, keys >> 16 & 255) << 32),
    # by alpha, red, green, blue
    lambda keys, first, count: (keys & 0xFF00FF00) + ((keys & 255) << 16) + (keys >> 16 & 255),
)
_MALFORMED = "malformed palette in the .dqc file"
_MAX_DIGITS_BYTES = 257  # holds 256 digits below 257


def _ordered(rasters: list[np.ndarray], order: int) -> np.ndarray:
    """The distinct colours (u, C) of all rasters, sorted by one of `_ORDERS`."""
    flat = np.concatenate([raster.reshape(-1, raster.shape[2]) for raster in rasters])
    keys, first, count = np.unique(numbers(flat), return_index=True, return_counts=True)
    return flat[first[np.argsort(_ORDERS[order](keys, first, count), kind="stable")]]


def _encode(entries: np.ndarray, used: np.ndarray, order: int) -> bytes:
    """The body of PLTE. entries: the table (n, C); used: the image's colours (u, C) in this order."""
    left, extras, digits, start = [tuple(color) for color in used.tolist()], [], [], 0
    unused = len(entries) - len(left)
    for entry in map(tuple, entries.tolist()):
        radix = len(left) + (unused > 0)
        if entry in left:
            place = left.index(entry)
            digits.append(((place - start) % len(left), radix))
            del left[place]
            start = place
        else:
            digits.append((len(left), radix))
            extras.append(entry)
            unused -= 1
    number = 0
    for digit, radix in reversed(digits):
        number = number * radix + digit
    packed = number.to_bytes(-(-number.bit_length() // 8), "little")
    return write_varint(len(entries)) + bytes([order]) + bytes(np.array(extras, np.uint8)) + packed


def _decode(code: bytes, rasters: list[np.ndarray]) -> np.ndarray:
    """The inverse of _encode: the table (n, C) uint8; raises CorruptError."""
    if not code:
        used = _ordered(rasters, 0)
        if len(used) > 256:
            raise CorruptError(_MALFORMED)
        return used
    reader = Reader(code, error=_MALFORMED)
    length, order = reader.varint(), reader.byte()
    if order >= len(_ORDERS):
        raise CorruptError(_MALFORMED)
    used = _ordered(rasters, order)
    count, depth = used.shape
    unused = length - count
    if not 0 < length <= 256 or unused < 0:
        raise CorruptError(_MALFORMED)
    extras, digits = [reader.take(depth) for _ in range(unused)], reader.rest()
    if len(digits) > _MAX_DIGITS_BYTES:
        raise CorruptError(_MALFORMED)
    number = int.from_bytes(digits, "little")
    left, entries, start = [bytes(color) for color in used], [], 0
    for _ in range(length):
        number, digit = divmod(number, len(left) + bool(extras))
        if digit < len(left):
            start = (start + digit) % len(left)
            entries.append(left.pop(start))
        else:
            entries.append(extras.pop(0))
    if number:
        raise CorruptError(_MALFORMED)
    return np.frombuffer(b"".join(entries), np.uint8).reshape(length, depth)
