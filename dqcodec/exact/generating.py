"""Images that a model makes: decoding random bits gives x ~ P(x)."""

from __future__ import annotations

import numpy as np

from dqcodec.ans.stack import Stack
from dqcodec.exact.program import Program

_NOISE_BYTES_PER_DIM = 16  # more than decoding a sample pops


def generate(program: Program, count: int, side: int, seed: int = 0) -> np.ndarray:
    """Images x = floor(v), v ~ p(v): uint8 (count, side, side, C), below 2^bits. The seed alone determines them."""
    stack = Stack(np.random.default_rng(seed).bytes(_NOISE_BYTES_PER_DIM * count * side * side * program.channels))
    return program.sample(stack, count, side, side)


def sheet(images: np.ndarray, bits: int = 8) -> np.ndarray:
    """Put images (N, H, W, C), below 2^bits, on a nearly square sheet of 8-bit pixels; unused places are black."""
    count, height, width, channels = images.shape
    across = int(np.ceil(np.sqrt(count)))
    down = -(-count // across)
    places = np.zeros((down * across, height, width, channels), np.uint8)
    places[:count] = np.rint(images * (255 / ((1 << bits) - 1)))
    return (
        places.reshape(down, across, height, width, channels)
        .swapaxes(1, 2)
        .reshape(down * height, across * width, channels)
    )
