"""zlib's deflate (Gailly and Adler), the lazy matching of its levels 4 to 9, exactly. A part of the .dqc format.

    deflate(data, level, window_bits) -> a raw deflate stream, that of zlib with memLevel 8 and the default strategy

Chunks with compressed texts and profiles are kept inflated, and deflated again. The zlib of a machine may be another
implementation, such as zlib-ng, that gives other streams. This one gives the same stream on all machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dqcodec.base.errors import CorruptError

_MIN_MATCH, _MAX_MATCH = 3, 258
_LEAST_AHEAD = _MAX_MATCH + _MIN_MATCH + 1
_TOO_FAR = 4096  # a match of three bytes is not used at a larger distance
_HASH_SHIFT, _HASH_MASK = 5, (1 << 15) - 1
_MAX_STEPS = 1 << 22  # along chains of equal hashes
_BLOCK_SYMBOLS = (1 << 14) - 1
_LENGTH_BITS = [0] * 8 + [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4 + [5] * 4 + [0]
_DISTANCE_BITS = [0, 0, *(bits for bits in range(14) for _ in range(2))]
_LITERAL_BITS = [0] * 257 + _LENGTH_BITS  # bytes, the end, lengths
_CODE_BITS = [0] * 16 + [2, 3, 7]
_CODE_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
_STATIC_LENGTHS = [8] * 144 + [9] * 112 + [7] * 24 + [8] * 8
_END = 256


class _Level(NamedTuple):
    """How long zlib searches. good: a match of this length shortens the next search. lazy: one of this length ends it.
    nice: a longer match is not sought. chain: places that a search visits.
    """

    good: int
    lazy: int
    nice: int
    chain: int


LEVELS = {
    4: _Level(4, 4, 16, 16), 5: _Level(8, 16, 32, 32), 6: _Level(8, 16, 128, 128), 7: _Level(8, 32, 128, 256),
    8: _Level(32, 128, 258, 1024), 9: _Level(32, 258, 258, 4096),
}  # fmt: skip


def _starts(bits: Sequence[int]) -> list[int]:
    """The first value of each code with these numbers of extra bits."""
    starts, start = [], 0
    for each in bits:
        starts.append(start)
        start += 1 << each
    return starts


_LENGTH_STARTS, _DISTANCE_STARTS = [*_starts(_LENGTH_BITS)[:-1], 255], _starts(_DISTANCE_BITS)
_LENGTH_CODES = [code for code, bits in enumerate(_LENGTH_BITS[:-1]) for _ in range(1 << bits)][:255] + [28]


def deflate(data: bytes, level: int, window_bits: int) -> bytes:
    """The raw deflate stream of data. level: 4 to 9. window_bits: 9 to 15.

    Raises CorruptError: this takes more than a second or two; no text or profile is so repetitive.
    """
    writer = _Writer()
    blocks = list(_blocks(data, LEVELS[level], 1 << window_bits))
    for number, (start, end, is_in_window, symbols) in enumerate(blocks):
        _write_block(writer, data[start:end], symbols, is_in_window, is_last=number == len(blocks) - 1)
    return writer.finish()


class _Chains:
    """The places before a place where three bytes have the same hash, the latest first."""

    def __init__(self, data: bytes, window: int) -> None:
        self._data, self._mask, self._steps = data, window - 1, _MAX_STEPS
        self._heads: dict[int, int] = {}
        self._before = [0] * window

    def insert(self, place: int) -> int:
        """Enter a place; returns the first one before it, or 0."""
        data = self._data
        key = (data[place] << 2 * _HASH_SHIFT ^ data[place + 1] << _HASH_SHIFT ^ data[place + 2]) & _HASH_MASK
        self._before[place & self._mask] = head = self._heads.get(key, 0)
        self._heads[key] = place
        return head

    def longest(self, level: _Level, at: int, head: int, limit: int, ahead: int, best: int) -> tuple[int, int]:
        """(length, place) of the longest match with the bytes at a place; (best, 0) if none is longer than `best`.

        head: the first place to look. limit: places up to this one are too far. ahead: bytes that are known.
        """
        data, before, mask, place, found_at = self._data, self._before, self._mask, head, 0
        left = level.chain >> 2 if best >= level.good else level.chain
        enough, most = min(level.nice, ahead), min(_MAX_MATCH, ahead)
        while best < most:
            if data[place + best] == data[at + best] and data[place : place + best] == data[at : at + best]:
                best, found_at = best + 1, place
                while best < most and data[place + best] == data[at + best]:
                    best += 1
                if best >= enough:
                    break
            place = before[place & mask]
            left -= 1
            self._steps -= 1
            if place <= limit or not left:
                break
        if self._steps < 0:
            raise CorruptError("the content of a compressed chunk is too repetitive")
        return min(best, ahead), found_at


def _blocks(data: bytes, level: _Level, window: int) -> Iterator[tuple[int, int, bool, list[tuple[int, int]]]]:
    """(start, end, whether the window still has its start, symbols) of each block. A symbol is (0, byte) or (distance,
    length)."""
    chains, farthest, size = _Chains(data, window), window - _LEAST_AHEAD, len(data)
    at = read = offset = block_start = 0
    length, match_at, is_pending = _MIN_MATCH - 1, 0, False
    symbols: list[tuple[int, int]] = []
    while True:
        while read - at < _LEAST_AHEAD and read < size:
            if at - offset >= window + farthest:
                offset += window
            read = min(size, offset + 2 * window)
        if at == read:
            break
        head = chains.insert(at) if read - at >= _MIN_MATCH else 0
        last_length, last_at, length = length, match_at, _MIN_MATCH - 1
        if head > offset and last_length < level.lazy and at - head <= farthest:
            limit = max(offset, at - farthest)
            length, found_at = chains.longest(level, at, head, limit, read - at, last_length)
            match_at = found_at or match_at
            if length == _MIN_MATCH and at - match_at > _TOO_FAR:
                length = _MIN_MATCH - 1
        if last_length >= _MIN_MATCH and length <= last_length:
            symbols.append((at - 1 - last_at, last_length))
            end = at - 1 + last_length
            for place in range(at + 1, min(end, read - _MIN_MATCH + 1)):
                chains.insert(place)
            at, is_pending, length = end, False, _MIN_MATCH - 1
            block_end = at
        else:
            if is_pending:
                symbols.append((0, data[at - 1]))
            is_pending = True
            block_end = at
            at += 1
        if len(symbols) == _BLOCK_SYMBOLS:
            yield block_start, block_end, block_start >= offset, symbols
            block_start, symbols = block_end, []
    if is_pending:
        symbols.append((0, data[at - 1]))
    yield block_start, at, block_start >= offset, symbols


class _Writer:
    """Bits, the lowest first."""

    def __init__(self) -> None:
        self._out, self._bits, self._count = bytearray(), 0, 0

    def write(self, value: int, count: int) -> None:
        """The lowest `count` bits of a value."""
        self._bits |= value << self._count
        self._count += count
        while self._count >= 8:
            self._out.append(self._bits & 255)
            self._bits >>= 8
            self._count -= 8

    def align(self) -> None:
        """Zero bits up to the next byte."""
        self.write(0, -self._count % 8)

    def finish(self) -> bytes:
        """All bytes."""
        self.align()
        return bytes(self._out)


class _Trees(NamedTuple):
    """The codes of a block.

    literals, distances: the bits of each code, of bytes, the end and lengths, and of distances. runs: these numbers as
    (code, extra value). run_bits: the bits of each code of a run; the first `written` of them, in _CODE_ORDER, are
    written.
    """

    literals: Sequence[int]
    distances: Sequence[int]
    runs: Sequence[tuple[int, int]] = ()
    run_bits: Sequence[int] = ()
    written: int = 0

    @classmethod
    def of(cls, literals: list[int], distances: list[int]) -> _Trees:
        """The best ones for codes of these frequencies."""
        trees = _code_lengths(literals, 15), _code_lengths(distances, 15)
        runs = [run for tree in trees for run in _runs(tree)]
        run_bits = _code_lengths(_run_counts(runs), 7)
        run_bits += [0] * (19 - len(run_bits))
        written = max((4, *(1 + place for place, code in enumerate(_CODE_ORDER) if run_bits[code])))
        return cls(*trees, runs, run_bits, written)

    def bits(self, literals: Sequence[int], distances: Sequence[int]) -> int:
        """The bits of symbols with codes of these frequencies."""
        return _bits(self.literals, literals, _LITERAL_BITS) + _bits(self.distances, distances, _DISTANCE_BITS)

    @property
    def own_bits(self) -> int:
        """The bits that `write` takes."""
        return 14 + 3 * self.written + _bits(self.run_bits, _run_counts(self.runs), _CODE_BITS)

    def write(self, writer: _Writer) -> None:
        """Write the trees."""
        writer.write(len(self.literals) - 257, 5)
        writer.write(len(self.distances) - 1, 5)
        writer.write(self.written - 4, 4)
        for code in _CODE_ORDER[: self.written]:
            writer.write(self.run_bits[code], 3)
        words = _words(self.run_bits)
        for code, extra in self.runs:
            writer.write(*words[code])
            writer.write(extra, _CODE_BITS[code])


_STATIC = _Trees(_STATIC_LENGTHS, [5] * 30)


def _write_block(
    writer: _Writer, data: bytes, symbols: Sequence[tuple[int, int]], is_in_window: bool, is_last: bool
) -> None:
    """The smallest of three forms of a block."""
    frequencies = _frequencies(symbols)
    trees = _Trees.of(*frequencies)
    static_bytes = 3 + _STATIC.bits(*frequencies) + 7 >> 3
    smallest = min(static_bytes, 3 + trees.own_bits + trees.bits(*frequencies) + 7 >> 3)
    if len(data) + 4 <= smallest and is_in_window:
        writer.write(is_last, 3)
        writer.align()
        for byte in (*len(data).to_bytes(2, "little"), *(len(data) ^ 65535).to_bytes(2, "little"), *data):
            writer.write(byte, 8)
    elif static_bytes == smallest:
        writer.write(2 | is_last, 3)
        _write_symbols(writer, symbols, _STATIC)
    else:
        writer.write(4 | is_last, 3)
        trees.write(writer)
        _write_symbols(writer, symbols, trees)


def _frequencies(symbols: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """How often a block has each code: of bytes, the end and lengths, and of distances."""
    literals, distances = [0] * 286, [0] * 30
    literals[_END] = 1
    for distance, value in symbols:
        if distance:
            literals[_END + 1 + _LENGTH_CODES[value - _MIN_MATCH]] += 1
            distances[_distance_code(distance)] += 1
        else:
            literals[value] += 1
    return literals, distances


def _run_counts(runs: Sequence[tuple[int, int]]) -> list[int]:
    """How often runs have each code."""
    counts = [0] * 19
    for code, _ in runs:
        counts[code] += 1
    return counts


def _write_symbols(writer: _Writer, symbols: Sequence[tuple[int, int]], trees: _Trees) -> None:
    """Write the symbols of a block, and its end."""
    literal_words, distance_words = _words(trees.literals), _words(trees.distances)
    for distance, value in symbols:
        if not distance:
            writer.write(*literal_words[value])
            continue
        code = _LENGTH_CODES[value - _MIN_MATCH]
        writer.write(*literal_words[_END + 1 + code])
        writer.write(value - _MIN_MATCH - _LENGTH_STARTS[code], _LENGTH_BITS[code])
        code = _distance_code(distance)
        writer.write(*distance_words[code])
        writer.write(distance - 1 - _DISTANCE_STARTS[code], _DISTANCE_BITS[code])
    writer.write(*literal_words[_END])


def _bits(tree: Sequence[int], counts: Sequence[int], extra: Sequence[int]) -> int:
    """The bits of all symbols with the codes of a tree. extra: the bits that follow each code."""
    return sum(count * (length + more) for length, count, more in zip(tree, counts, extra))


def _distance_code(distance: int) -> int:
    """The code of a distance, from 1 on."""
    distance -= 1
    bits = max(0, distance.bit_length() - 2)
    return 2 * bits + (distance >> bits)


def _code_lengths(frequencies: list[int], longest: int) -> list[int]:
    """The bits of the code of each symbol up to the last one that has a code. At least two symbols get a code."""
    count = len(frequencies)
    weights, depths, parents = [*frequencies, *[0] * (count + 1)], [0] * (2 * count + 1), [0] * (2 * count + 1)
    heap = [symbol for symbol in range(count) if weights[symbol]]
    last = heap[-1] if heap else -1
    while len(heap) < 2:
        last, symbol = (last + 1, last + 1) if last < 2 else (last, 0)
        weights[symbol] = 1
        heap.append(symbol)

    def is_less(node: int, other: int) -> bool:
        return (weights[node], depths[node]) <= (weights[other], depths[other])

    def sift(place: int) -> None:
        node, child = heap[place], 2 * place + 1
        while child < len(heap):
            if child + 1 < len(heap) and is_less(heap[child + 1], heap[child]):
                child += 1
            if is_less(node, heap[child]):
                break
            heap[place], place = heap[child], child
            child = 2 * place + 1
        heap[place] = node

    for place in range(len(heap) // 2 - 1, -1, -1):
        sift(place)
    order, node = [], count
    while len(heap) >= 2:
        first, heap[0] = heap[0], heap[-1]
        heap.pop()
        sift(0)
        second = heap[0]
        order += [first, second]
        weights[node] = weights[first] + weights[second]
        depths[node] = max(depths[first], depths[second]) + 1
        parents[first] = parents[second] = node
        heap[0] = node
        node += 1
        sift(0)
    return _limited(order[::-1], parents, heap[0], last, longest)


def _limited(order: list[int], parents: list[int], root: int, last: int, longest: int) -> list[int]:
    """The lengths of codes from a tree, none longer than `longest`. order: its nodes, parents first, without the
    root."""
    lengths, of_length, overflow = [0] * len(parents), [0] * (longest + 1), 0
    for node in order:
        bits = lengths[parents[node]] + 1
        if bits > longest:
            bits = longest
            overflow += 1
        lengths[node] = bits
        of_length[bits] += node <= last
    if overflow:
        while overflow > 0:
            bits = longest - 1
            while not of_length[bits]:
                bits -= 1
            of_length[bits] -= 1
            of_length[bits + 1] += 2
            of_length[longest] -= 1
            overflow -= 2
        leaves = (node for node in reversed(order) if node <= last)
        for bits in range(longest, 0, -1):
            for _ in range(of_length[bits]):
                lengths[next(leaves)] = bits
    return lengths[: last + 1]


def _runs(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """The lengths of a tree as (code, extra value)."""
    out: list[tuple[int, int]] = []
    before = -1
    place = 0
    while place < len(lengths):
        value = lengths[place]
        most = 138 if value == 0 else 6 if value == before else 7
        least = 3 if value in (0, before) else 4
        count = 1
        while count < most and place + count < len(lengths) and lengths[place + count] == value:
            count += 1
        if count < least:
            out += [(value, 0)] * count
        elif value:
            if value != before:
                out.append((value, 0))
                out.append((16, count - 4))
            else:
                out.append((16, count - 3))
        else:
            out.append((17, count - 3) if count <= 10 else (18, count - 11))
        before = value
        place += count
    return out


def _words(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """(bits, their number) of each symbol's code, the first bit lowest."""
    words, code = [(0, 0)] * len(lengths), 0
    for bits in range(1, 16):
        for symbol, length in enumerate(lengths):
            if length == bits:
                words[symbol] = int(f"{code:0{bits}b}"[::-1], 2), bits
                code += 1
        code <<= 1
    return words
