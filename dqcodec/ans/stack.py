"""The stack of bits: constriction's ANS coder (Duda 2009; Bamler 2022), with an error where constriction would pop
zeros from an empty stack."""

import constriction
import numpy as np

from dqcodec.ans.checks import checked_sizes, checked_symbols
from dqcodec.base.errors import CorruptError, StackUnderflow

AnsCoder = constriction.stream.stack.AnsCoder
Uniform = constriction.stream.model.Uniform

_FULL_STATE = 1 << 32
_TOP = (1).to_bytes(4, "little")  # above the seed: the coder needs a nonzero last word


class Stack:
    """A stack of bits: last in, first out. It codes integers below a size, as uniform.

    Codecs for other distributions consist of uniforms, see dqcodec.exact.flow.tables. `seed` lies at the bottom. Pops
    may borrow its bits. When every push is undone, the seed is whole again.
    """

    def __init__(self, seed: bytes = b""):
        self._coder = AnsCoder(np.frombuffer(_bottom(seed), "<u4").astype(np.uint32))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Stack":
        """The stack of to_bytes.

        Raises CorruptError: these are not the bytes of a stack.
        """
        words = np.frombuffer(data, "<u4").astype(np.uint32) if len(data) % 4 == 0 else np.zeros(0, np.uint32)
        if len(words) < 2 or words[-1] == 0:
            raise CorruptError("the bit stack is damaged")
        stack = cls.__new__(cls)
        stack._coder = AnsCoder(words)
        return stack

    def to_bytes(self) -> bytes:
        """The whole stack, little-endian 32-bit words from bottom to top."""
        return self._coder.get_compressed().astype("<u4").tobytes()

    def copy(self) -> "Stack":
        """A stack of the same bits."""
        return self.from_bytes(self.to_bytes())

    def seed(self, length: int) -> bytes:
        """The seed, of `length` bytes, if nothing else is on the stack.

        Raises CorruptError: the stack holds more, or less.
        """
        data = self.to_bytes()
        if data != _bottom(data[:length]):
            raise CorruptError("the bit stack does not end at its seed")
        return data[:length]

    @property
    def bits(self) -> int:
        """The size, bits."""
        return self._coder.num_valid_bits()

    def push(self, symbols: np.ndarray, sizes: np.ndarray | int) -> None:
        """Push integers; see BitStack.push. A size is at most 2^23, because the coder's probabilities have 24 bits."""
        flat, least = checked_sizes(sizes)
        symbols = checked_symbols(symbols, flat)
        if np.ndim(sizes) == 0:
            if least > 1:
                self._coder.encode_reverse(symbols, Uniform(int(sizes)))
            return
        if least == 1:  # an alphabet of one symbol takes no bits, and the coder refuses it
            symbols, flat = symbols[flat > 1], flat[flat > 1]
        if len(symbols):
            self._coder.encode_reverse(symbols, Uniform(), flat)

    def pop(self, sizes: np.ndarray | int, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Pop integers; see BitStack.pop."""
        flat, least = checked_sizes(sizes)
        if np.ndim(sizes) == 0:
            symbols = np.zeros(shape, np.int64)
            if least > 1 and symbols.size:
                symbols = self._coder.decode(Uniform(int(sizes)), symbols.size).astype(np.int64).reshape(shape)
        elif least > 1 and len(flat):
            symbols = self._coder.decode(Uniform(), flat).astype(np.int64).reshape(sizes.shape)
        else:
            symbols, several = np.zeros(sizes.shape, np.int64), flat > 1
            if several.any():
                symbols.reshape(-1)[several] = self._coder.decode(Uniform(), flat[several])
        words, state = self._coder.pos()
        if words == 0 and state < _FULL_STATE:
            raise StackUnderflow("the bit stack ran out")
        return symbols


def _bottom(seed: bytes) -> bytes:
    """The words of a stack that holds only a seed; at least two, the coder's full state."""
    return seed + bytes(-len(seed) % 4 if seed else 4) + _TOP
