"""Changes of bytes that know no format: bits, numbers, cuts, copies, repeats, words."""

from __future__ import annotations

import random
from collections.abc import Callable

from fuzzing.limits import MAX_INPUT

NUMBERS = (
    0, 1, 2, 3, 7, 8, 16, 31, 32, 63, 64, 127, 128, 255, 256, 257, 1 << 13, 1 << 16, 1 << 20, 1 << 24, (1 << 31) - 1,
    1 << 31, (1 << 32) - 1,
)  # fmt: skip


def changed(data: bytes, rng: random.Random, words: tuple[bytes, ...] = ()) -> bytes:
    """`data` after one to some changes."""
    for _ in range(1 << rng.randrange(4)):
        data = rng.choice(_CHANGES)(data[:MAX_INPUT], rng, words)
    return data[:MAX_INPUT]


def _flip(data, rng, words):
    return _at(data, rng, lambda byte: byte ^ 1 << rng.randrange(8))


def _byte(data, rng, words):
    return _at(
        data, rng, lambda byte: rng.choice((0, 1, 127, 128, 255, byte + 1 & 255, byte - 1 & 255, rng.randrange(256)))
    )


def _number(data, rng, words):
    from dqcodec.base.varint import write_varint  # late, as targets.py says

    place, value = rng.randrange(len(data) + 1), rng.choice(NUMBERS)
    form = rng.choice(
        [write_varint(value), *(value.to_bytes(4, order) for order in ("little", "big")), bytes([value & 255])]
    )
    return data[:place] + form + data[place + rng.choice((0, len(form))) :]


def _cut(data, rng, words):
    start, stop = _span(data, rng)
    return data[:start] + data[stop:]


def _truncate(data, rng, words):
    return data[: rng.randrange(len(data) + 1)]


def _copy(data, rng, words):
    (start, stop), place = _span(data, rng), rng.randrange(len(data) + 1)
    return data[:place] + data[start:stop] + data[place:]


def _repeat(data, rng, words):
    start, stop = _span(data, rng)
    times = rng.choice((2, 3, 17, 300)) if stop - start > 64 else rng.choice((2, 5, 40, 1000))
    times = min(times, 2 + MAX_INPUT // max(1, stop - start))
    return data[:start] + data[start:stop] * times + data[stop:]


def _word(data, rng, words):
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(words or (b"\0", b"\xff")) + data[place:]


_CHANGES = (_flip, _flip, _byte, _byte, _number, _number, _cut, _truncate, _copy, _repeat, _word)


def _at(data: bytes, rng: random.Random, change: Callable[[int], int]) -> bytes:
    if not data:
        return data
    place = rng.randrange(min(len(data), 64) if rng.random() < 0.5 else len(data))
    return data[:place] + bytes([change(data[place])]) + data[place + 1 :]


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 30, 200, len(data))))
