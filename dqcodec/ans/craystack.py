"""Trained models as codecs of craystack (Townsend et al., github.com/j-towns/craystack), to compose with its own.

    message = craystack.random_message(100_000, (1024,))  # words that the first pops can borrow
    codec = craystack.repeat(model_codec(program, (10, 32, 32)), 5)
    message, = codec.push(message, images)  # int64 (5, 10, 32, 32, C)
    message, images = codec.pop(message)

No registry has craystack: clone its repository, put it on PYTHONPATH, and install autograd and scipy. This module
works with its commit 992e14d.

A message is a head of lanes, 2^31 <= lane < 2^63, and a tail of 32-bit words that the lanes share. An array is pushed
in rows, one symbol for each lane. A last, shorter row uses the first lanes only, so nothing is padded. A uniform of n
symbols is craystack's `push_with_finer_prec` with start = symbol, frequency 1 and total n, which need not be a power of
two: the lane becomes n lane + symbol. Cutting 2^precision slots into n parts would lose bits for most n.

Symbols cost less than 1e-6 bit beyond the logarithm of their size (on files' Stack 0.02, for sizes from 2^0 to 2^23). A
lane never lends 31 of its bits, and craystack.flatten adds about 4.5 bits a lane at the end.
Speed is that of numpy's calls for each row: 0.01 million symbols a second on one lane, 0.36 on 64, 3.3 on 1024, 6 on
4096, where Stack codes 12; a CIFAR-10 flow is about as fast as on Stack from 1024 lanes on (benchmarks/engines.py, on
a busy machine).

In craystack an empty message gives random bits from a global generator, which no decoder has. Here it raises
StackUnderflow, and the generator is not used. Lanes stay at 2^31 or above, so a base message has nothing to lend, for
any number of lanes. Pushes and pops return a new message; they never change the old one.
"""

import numpy as np
from craystack import Codec, rans

from dqcodec.ans.checks import checked_sizes, checked_symbols
from dqcodec.ans.protocol import ImageCodec
from dqcodec.base.errors import CorruptError, StackUnderflow

Message = tuple[np.ndarray, tuple]  # (uint64 lanes of any shape, (uint32 words, (uint32 words, ... ())), the top first)

_LEAST, _END = rans.rans_l, rans.rans_l << 32  # a lane's range


class CraystackStack:
    """A BitStack on a craystack message."""

    def __init__(self, message: Message):
        """The stack of a message.

        Raises CorruptError: a lane is out of range, so that pops would not undo pushes. Half of craystack's random
        messages with a single lane are out of range.
        """
        head, self._tail = message
        self._shape, self._head = np.shape(head), np.array(head, np.uint64).ravel()
        if not len(self._head) or self._head.min() < _LEAST or self._head.max() >= _END:
            raise CorruptError("the head of the craystack message is out of range")

    @property
    def message(self) -> Message:
        """The content, as a message of craystack."""
        return self._head.reshape(self._shape).copy(), self._tail

    def push(self, symbols: np.ndarray, sizes: np.ndarray | int) -> None:
        """Push integers; see BitStack.push."""
        checked_symbols(symbols, checked_sizes(sizes)[0])
        symbols, sizes = symbols.ravel().astype(np.uint64), np.broadcast_to(sizes, symbols.shape).ravel()
        for row in reversed(self._rows(len(symbols))):
            lanes = row.stop - row.start
            # the tail never becomes empty: a lane takes a word only after it has put one there
            self._head[:lanes], self._tail = rans.push_with_finer_prec(
                (self._head[:lanes], self._tail), symbols[row], 1, sizes[row]
            )

    def pop(self, sizes: np.ndarray | int, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Pop integers; see BitStack.pop."""
        checked_sizes(sizes)
        sizes = np.broadcast_to(sizes, shape) if np.ndim(sizes) == 0 else sizes
        symbols, flat = np.empty(sizes.size, np.int64), sizes.ravel()
        for row in self._rows(len(flat)):
            symbols[row] = self._pop_row(flat[row])
        return symbols.reshape(sizes.shape)

    def _rows(self, count: int) -> list[slice]:
        lanes = len(self._head)
        return [slice(start, min(start + lanes, count)) for start in range(0, count, lanes)]

    def _pop_row(self, sizes: np.ndarray) -> np.ndarray:
        lanes, tail = len(sizes), self._tail
        short = not _holds(tail, lanes)  # a lane takes at most one word
        if short:  # the words below the last one show whether there are enough
            tail = _words(tail, np.zeros(lanes, np.uint32)), ()
        symbols, finish = rans.pop_with_finer_prec((self._head[:lanes], tail), sizes)
        head, tail = finish(symbols, 1)
        if short:
            words = _words(tail)
            if len(words) < lanes:
                raise StackUnderflow("the craystack message ran out")
            tail = (words[:-lanes], ()) if len(words) > lanes else ()
        self._head[:lanes], self._tail = head, tail
        return symbols


def model_codec(program: ImageCodec, shape: tuple[int, int, int]) -> Codec:
    """The craystack codec of int64 pixels (*shape, C), shape = (images, height, width), under a trained program.

    Push raises StackUnderflow (the message cannot lend the bits that the program borrows), LatentOverflow (the program
    cannot code the pixels) and ValueError (wrong shape or values). Pop raises StackUnderflow, LatentOverflow and
    CorruptError: the message holds no such pixels. Images are coded independently. A flow's sides are multiples of
    program.multiple.
    """

    def push(message: Message, x: np.ndarray) -> tuple[Message]:
        if np.shape(x) != (*shape, program.channels):
            raise ValueError(f"pixels of the shape {np.shape(x)} for a codec of {(*shape, program.channels)}")
        stack = CraystackStack(message)
        program.push_images(stack, x)
        return (stack.message,)

    def pop(message: Message) -> tuple[Message, np.ndarray]:
        stack = CraystackStack(message)
        x = program.pop_images(stack, *shape)
        return stack.message, x

    return Codec(push, pop)


def _holds(tail: tuple, count: int) -> bool:
    """Whether the tail holds this number of words."""
    while tail and count > 0:
        words, tail = tail
        count -= len(words)
    return count <= 0


def _words(tail: tuple, *below: np.ndarray) -> np.ndarray:
    """All words of a tail from the top, then others below it."""
    chunks = [np.zeros(0, np.uint32)]
    while tail:
        words, tail = tail
        chunks.append(words)
    return np.concatenate([*chunks, *below])
