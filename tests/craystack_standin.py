"""A small stand-in of craystack, for where it is not importable: the parts of it that the adapter and its tests use.

A message is a head of lanes, uint64 with 2^31 <= lane < 2^63, and a tail of 32-bit words: () or (words, tail), the top
first. Coding is rANS (Duda 2009) on all lanes at once. A symbol is an interval of `freq` slots from `start` on, of
`total`:

    push:  lane -> total * (lane // freq) + lane % freq + start
    pop:   slot = lane % total;  lane -> freq * (lane // total) + slot - start

A lane that would grow beyond its range gives its low 32 bits to the tail, and one that has left it below takes a word
from there. An empty tail gives random bits, as craystack's does. A codec is Codec(push, pop), with
push(message, symbol) -> (message,) and pop(message) -> (message, symbol).
"""

import itertools
from collections import namedtuple
from types import SimpleNamespace

import numpy as np

LEAST = 1 << 31  # of a lane

Codec = namedtuple("Codec", "push pop")


# --- messages


def base_message(shape, randomize=False):
    """The message that holds nothing; randomize: random bits below the leading one of each lane."""
    extra = rans.rng.integers(0, LEAST, shape, np.uint64) if randomize else np.zeros(shape, np.uint64)
    return np.uint64(LEAST) + extra, ()


def flatten(message):
    """A message as words: the lanes' high halves, their low halves, then the tail from the top."""
    head, tail = message
    lanes, chunks = np.ravel(head), []
    while tail:
        words, tail = tail
        chunks.append(words)
    return np.concatenate([(lanes >> np.uint64(32)).astype(np.uint32), lanes.astype(np.uint32), *chunks])


def unflatten(words, shape):
    """Undo flatten."""
    lanes = int(np.prod(shape))
    high, low = words[:lanes].astype(np.uint64), words[lanes : 2 * lanes].astype(np.uint64)
    return (high << np.uint64(32) | low).reshape(shape), (words[2 * lanes :], ())


def _overflowing(message, limits):
    """The message after every lane from its limit on has given a word."""
    head, tail = message
    full = head >= limits
    if full.any():
        tail = head[full].astype(np.uint32), tail
        head = np.where(full, head >> np.uint64(32), head)
    return head, tail


def _refilled(head, tail):
    """The message after every lane below the range has taken a word."""
    empty = head < LEAST
    words, tail = _taken(tail, int(empty.sum()))
    head[empty] = head[empty] << np.uint64(32) | words
    return head, tail


def _taken(tail, count):
    """(that many words from the top, the rest)."""
    taken = [np.zeros(0, np.uint32)]
    while count > 0:
        words, tail = tail or (rans.rng.integers(0, 1 << 32, count, np.uint32), ())
        taken.append(words[:count])
        tail = (words[count:], tail) if len(words) > count else tail
        count -= len(taken[-1])
    return np.concatenate(taken), tail


def _push(message, start, freq, total):
    start, freq, total = (np.atleast_1d(each).astype(np.uint64) for each in (start, freq, total))
    head, tail = _overflowing(message, (np.uint64(LEAST) // total << np.uint64(32)) * freq)
    return _refilled(head // freq * total + head % freq + start, tail)


def _pop(message, total):
    """(the slot of every lane, the function that takes (start, freq) of its symbol and gives the message without it)."""
    total = np.atleast_1d(total).astype(np.uint64)
    head, tail = _overflowing(message, total * (np.uint64(LEAST) // total << np.uint64(32)))
    slots = head % total

    def finish(start, freq):
        start, freq = (np.atleast_1d(each).astype(np.uint64) for each in (start, freq))
        return _refilled(freq * (head // total) + slots - start, tail)

    return slots, finish


rans = SimpleNamespace(
    rans_l=LEAST, rng=np.random.default_rng(0), flatten=flatten, push_with_finer_prec=_push, pop_with_finer_prec=_pop
)


# --- codecs of one symbol a lane


def Uniform(precision):
    """Of uint64 symbols below 2^precision."""

    def push(message, symbol):
        return (_push(message, symbol, 1, 1 << precision),)

    def pop(message):
        slots, finish = _pop(message, 1 << precision)
        return finish(slots, 1), slots

    return Codec(push, pop)


def Bernoulli(p, precision):
    """A codec of uint64 symbols that are 1 with the probability p. precision: bits of p."""
    total = 1 << precision
    zeros = min(max(round((1 - p) * total), 1), total - 1)

    def interval(symbol):
        return np.where(symbol, zeros, 0), np.where(symbol, total - zeros, zeros)

    def push(message, symbol):
        return (_push(message, *interval(symbol), total),)

    def pop(message):
        slots, finish = _pop(message, total)
        symbol = (slots >= zeros).astype(np.uint64)
        return finish(*interval(symbol)), symbol

    return Codec(push, pop)


# --- codecs of codecs


def from_generator(generate):
    """The codecs that a generator yields, in the order of popping; it is sent each symbol that its codec gives."""

    def push(message, symbols):
        generator, codecs, sent = generate(), [], None
        for symbol in symbols:
            codecs.append(generator.send(sent))
            sent = symbol
        for codec, symbol in zip(reversed(codecs), reversed(symbols)):
            (message,) = codec.push(message, symbol)
        return (message,)

    def pop(message):
        generator, symbols, sent = generate(), [], None
        while True:
            try:
                codec = generator.send(sent)
            except StopIteration:
                return message, symbols
            message, sent = codec.pop(message)
            symbols.append(sent)

    return Codec(push, pop)


def from_iterable(codecs):
    """One codec after the other."""
    codecs = list(codecs)
    return from_generator(lambda: (codec for codec in codecs))


def repeat(codec, count):
    """The same codec again and again."""
    return from_iterable(itertools.repeat(codec, count))


def substack(codec, view):
    """A codec on the lanes that view(head) selects by indexing."""

    def on_part(message, code):
        head, tail = message
        places = view(np.arange(np.size(head)).reshape(np.shape(head)))
        (part, tail), *rest = code((head.ravel()[places], tail))
        lanes = head.ravel().copy()
        lanes[places] = part
        return (lanes.reshape(head.shape), tail), *rest

    def push(message, symbol):
        return on_part(message, lambda part: codec.push(part, symbol))

    def pop(message):
        return on_part(message, codec.pop)

    return Codec(push, pop)


def parallel(codecs, views):
    """Each codec on its own lanes."""
    return from_iterable(map(substack, codecs, views))
