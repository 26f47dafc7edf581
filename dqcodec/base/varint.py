"""Variable-length numbers: unsigned, little-endian base 128, the high bit set on every byte but the last."""

from dqcodec.base.errors import CorruptError

MAX_BYTES = 5


def write_varint(value: int) -> bytes:
    """The fewest bytes for 0 <= value < 2^35."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """(value, position after it).

    Raises:
        CorruptError: data ends, or the number is longer than it need be or than 5 bytes.
    """
    value = 0
    for index, byte in enumerate(data[position : position + MAX_BYTES]):
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            if index and not byte:
                break
            return value, position + index + 1
    raise CorruptError("malformed number")
