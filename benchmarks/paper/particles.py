"""Coding at the importance-weighted bound with K coupled particles: the encoder of dqcodec.ans.particles."""

import numpy as np

from dqcodec.ans.logarithms import ONE
from dqcodec.ans.particles import CoupledBitsBack, shares
from dqcodec.ans.protocol import BitStack
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import StackUnderflow
from dqcodec.exact.flow.program import FlowProgram
from dqcodec.frozen.flow import CHOICE_BITS
from dqcodec.methods import mixing

_LARGEST_BATCH = 100


class Particles(CoupledBitsBack):
    """The codec of x with K particles, both ways."""

    def push(self, stack: BitStack, x: np.ndarray) -> np.ndarray:
        """Code symbols x, (B, H, W, C) int64.

        Returns:
            The cost of each image by the model, -log2 of the mean of p(x + u_k) over the particles, (B,) float64, bits.

        Raises:
            StackUnderflow: the stack holds fewer bits than u and j borrow.
        """
        v, _ = self.dequantizer.pop(stack, x)
        offsets = self.offsets(x.shape[1:])
        weights = self.weights(v, offsets)
        starts, sizes = shares(weights)
        slots = stack.pop(1 << CHOICE_BITS, (len(x),))
        chosen = (slots[:, None] >= starts[:, 1:]).sum(1)
        images = np.arange(len(x))
        stack.push(slots - starts[images, chosen], sizes[images, chosen])
        stack.push(chosen, self.particles)
        self.density.push(stack, self.dequantizer.shift(v, offsets[chosen]))
        largest = weights.max(1)
        return np.log2(self.particles) - np.log2(np.exp2((weights - largest[:, None]) / ONE).sum(1)) - largest / ONE


def rates(program: FlowProgram, x: np.ndarray, particles: int) -> dict[str, float]:
    """Code images x, (N, H, W, C) symbols, with a flow of a uniform dequantizer on one stack; decode and compare them.

    The first images are the loan: they lie at the bottom of the stack, coded by mixing.

    Returns:
        Bits per dimension: the exact program's bound, the whole code, and what the loan costs beyond the bound.

    Raises:
        SystemExit: the decoded images differ.
    """
    codec, x = Particles(program.codec.dequantizer, program.codec.density, particles), x.astype(np.int64)
    loan, code, bits = _code(codec, x)
    stack = Stack.from_bytes(code)
    for batch in reversed(_batches(loan, len(x))):
        if not np.array_equal(codec.pop(stack, *x[batch].shape[:3]), x[batch]):
            raise SystemExit(f"{program.name}: the decoded images differ")
    seed = _seed(x[:loan])
    if stack.seed(len(seed)) != seed:
        raise SystemExit(f"{program.name}: the loan is not paid back")
    lent = codec.push(Stack(np.random.default_rng(0).bytes(8 * x[:loan].size)), x[:loan]).sum()
    sums = {"exact_bpd": bits + lent, "coded_bpd": 8 * len(code), "initial_bpd": 8 * len(seed) - lent}
    return {key: round(float(value) / x.size, 5) for key, value in sums.items()}


def _code(codec: Particles, x: np.ndarray) -> tuple[int, bytes, float]:
    """(the number of images in the loan, the stack, the bound of the other images in bits)."""
    loan = 3
    while loan < len(x):
        stack = Stack(_seed(x[:loan]))
        try:
            bits = sum(codec.push(stack, x[batch]).sum() for batch in _batches(loan, len(x)))
            return loan, stack.to_bytes(), bits
        except StackUnderflow:
            loan += 1 + loan // 8
    raise SystemExit("too few images for the first loan")


def _seed(images: np.ndarray) -> bytes:
    return mixing.encode(list(images.astype(np.uint8))).data


def _batches(loan: int, count: int) -> list[slice]:
    """The images after the loan. Each `loan` images hold the bits that one more image borrows."""
    batches, done = [], loan
    while done < count:
        size = min(done // loan, _LARGEST_BATCH, count - done)
        batches.append(slice(done, done + size))
        done += size
    return batches
