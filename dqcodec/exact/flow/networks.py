"""The networks of flows in integers: the exact twins of ResidualNet and AutoregressiveNet in dqcodec.flows.networks.

Their convolutions are those of dqcodec.exact.networks. Arrays are (B, H, W, C).
"""

from collections.abc import Callable

import numpy as np

from dqcodec.base.errors import ModelError
from dqcodec.base.threads import in_threads, single_thread
from dqcodec.exact.model_file import Tensors
from dqcodec.exact.networks import Conv, check_chain, load_conv, load_level
from dqcodec.frozen.flow import INPUT_BITS, INPUT_BOUND
from dqcodec.frozen.networks import LEAK

_CHUNK_POSITIONS = 2048  # positions that a thread computes at a time, so that they stay in its cache


def leaky(a: np.ndarray) -> np.ndarray:
    """max(a, a / 8), a / 8 rounded to the nearest integer, halves to even."""
    leak = a * a.dtype.type(LEAK)
    np.rint(leak, out=leak)
    return np.maximum(a, leak, out=leak)


def highpass(a: np.ndarray) -> np.ndarray:
    """4 (a - blur(a)), (B, H, W, C), rounded and clamped to the input bound; blur has the kernel [1 2 1] x [1 2 1] / 16."""
    batch, height, width, channels = a.shape
    padded = np.zeros((batch, height + 2, width + 2, channels), a.dtype)
    padded[:, 1:-1, 1:-1] = a
    rows = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    blur = rows[:, :, :-2] + 2 * rows[:, :, 1:-1] + rows[:, :, 2:]
    out = 4 * a - blur / 4
    np.floor(out + np.float32(0.5), out=out)
    return np.clip(out, -INPUT_BOUND, INPUT_BOUND, out=out)


def to_input(g: np.ndarray, grid_bits: int) -> np.ndarray:
    """Integers on a grid of 2^-grid_bits -> float32 integers on the networks' input grid, rounded and clamped."""
    drop = grid_bits - INPUT_BITS
    return np.clip((g + (1 << drop >> 1)) >> drop, -INPUT_BOUND, INPUT_BOUND).astype(np.float32)


class Trunk:
    """A convolution and residual blocks: inputs -> activations, whose sums are within +-level, after the last rectifier."""

    def __init__(self, tensors: Tensors, name: str, max_input: int):
        """Load the tensors `name`.*. max_input: the largest input. Raises ModelError."""
        level = load_level(tensors, name)  # the bound of activations
        self.level, self.conv_in = level, load_conv(tensors, f"{name}.in", max_input, -level, level)
        self.blocks, index = [], 0
        while f"{name}.{index}.1.weight" in tensors or f"{name}.{index}.2.weight" in tensors:
            first = load_conv(tensors, f"{name}.{index}.1", level, -level, level)
            self.blocks.append((first, load_conv(tensors, f"{name}.{index}.2", level, -2 * level, 2 * level)))
            index += 1
        check_chain(name, self.conv_in, *[conv for block in self.blocks for conv in block])
        if any(second.outputs != self.conv_in.outputs for _, second in self.blocks):
            raise ModelError(f"{name}: a network's tensors do not fit together")

    def __call__(self, a: np.ndarray) -> np.ndarray:
        """Inputs (B, H, W, I), float32 integers -> leaky(h), float32 (B, H, W, width of the network)."""
        h = self.conv_in(a).astype(np.float32, copy=False)
        for first, second in self.blocks:
            h += second(leaky(first(leaky(h))))
            np.clip(h, -self.level, self.level, out=h)
        return leaky(h)


class ResidualNet:
    """The twin of flows.networks.ResidualNet. It gives (m, raw log-scale), or a context, for each position."""

    def __init__(self, tensors: Tensors, name: str, in_channels: int, context_channels: int, low, high):
        """Load the tensors `name`.*. The output is clamped to [low, high], numbers or (O,). Raises ModelError."""
        self.in_channels, self.trunk = in_channels, Trunk(tensors, name, INPUT_BOUND)
        if self.trunk.conv_in.inputs != 2 * in_channels + context_channels:
            raise ModelError(f"{name}: a network's input does not fit its place")
        self.conv_out = load_conv(tensors, f"{name}.out", self.trunk.level, low, high)
        check_chain(name, self.trunk.conv_in, self.conv_out)

    def __call__(self, a: np.ndarray, context: np.ndarray | None = None) -> np.ndarray:
        """Float32 integers on the input grid, a (B, H, W, I) and context (B, H, W, context channels) -> (B, H, W, O)."""
        parts = [a, highpass(a)] + ([] if context is None else [context])
        return self.conv_out(self.trunk(np.concatenate(parts, -1)))


class AutoregressiveNet:
    """The twin of flows.networks.AutoregressiveNet.

    An output depends only on places before its own. This is checked at loading, because otherwise the inverse might
    have no solution. The part of the sums that depends on the context is computed once, by context_sums, for all
    iterations.
    """

    def __init__(self, tensors: Tensors, name: str, in_channels: int, low, high):
        """Load the tensors `name`.*. The output is clamped to [low, high], numbers or (O,). Raises ModelError."""
        level = load_level(tensors, name)
        self.in_channels, self.level = in_channels, level
        # the sums of x and of the context are added, so both share bias, shift and bound
        joint = load_conv(tensors, f"{name}.in", INPUT_BOUND, -level, level)
        context_part = load_conv(tensors, f"{name}.context", INPUT_BOUND, -level, level)
        if joint.bound + context_part.bound >= 1 << 53 or (joint.shift != context_part.shift).any():
            raise ModelError(f"{name}: a network's sums are not proven exact")
        self.conv_in, self.conv_context = joint, context_part
        self.conv_mid = load_conv(tensors, f"{name}.mid", level, -2 * level, 2 * level)
        self.conv_out = load_conv(tensors, f"{name}.out", level, low, high)
        check_chain(name, joint, self.conv_mid, self.conv_out)
        hidden = joint.outputs
        if (
            joint.inputs != in_channels
            or hidden % in_channels
            or not hidden == context_part.outputs == self.conv_mid.outputs
        ):
            raise ModelError(f"{name}: a network's tensors do not fit together")
        groups = np.arange(in_channels)
        middle, last = groups.repeat(hidden // in_channels), np.arange(self.conv_out.outputs) % in_channels
        check_causal(name, joint, groups, middle, strict=True)
        check_causal(name, self.conv_mid, middle, middle, strict=False)
        check_causal(name, self.conv_out, middle, last, strict=False)

    def context_sums(self, context: np.ndarray) -> np.ndarray:
        """The context (B, H, W, context channels) -> its part of the first layer's sums, (B, H, W, hidden) float64."""
        return self.conv_context.sums(context).astype(np.float64)

    def __call__(self, a: np.ndarray, context_sums: np.ndarray) -> np.ndarray:
        """a: float32 integers on the input grid, (B, H, W, C) -> (B, H, W, 2 C)."""
        h = leaky(self.conv_in.finish(self.conv_in.sums(a) + context_sums).astype(np.float32))
        h += self.conv_mid(h)
        np.clip(h, -self.level, self.level, out=h)
        return self.conv_out(leaky(h))


def check_causal(name: str, conv: Conv, inputs: np.ndarray, outputs: np.ndarray, *, strict: bool) -> None:
    """Raise ModelError unless the weights masked by flows.networks.MaskedConv2d are zero.

    inputs (I,), outputs (O,): the group of each channel. An output may depend on earlier groups at all places, and on
    its own group at earlier places in raster order. Without `strict`, it may also depend on its own group at its own
    place.
    """
    weight = conv.weight.reshape(conv.outputs, conv.inputs, -1)
    places = np.arange(weight.shape[2])
    before = places < len(places) // 2 + (not strict)
    groups = outputs[:, None, None] - inputs[:, None]
    if weight[(groups < 0) | (groups == 0) & ~before].any():
        raise ModelError(f"{name}: a network depends on later places")


def map_batch(function: Callable[..., tuple[np.ndarray, ...]], *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Apply `function` to arrays (B, H, W, ...) in pieces along the batch, in several threads, and join the results."""
    count, positions = len(arrays[0]), arrays[0].shape[1] * arrays[0].shape[2]
    step = max(1, _CHUNK_POSITIONS // positions)

    def run(part: slice) -> list[tuple[np.ndarray, ...]]:
        bounds = [(i, min(i + step, part.stop)) for i in range(part.start, part.stop, step)]
        return [function(*[array[i:j] for array in arrays]) for i, j in bounds]

    with single_thread():
        least = count if count * positions <= _CHUNK_POSITIONS else 1
        results = [result for part in in_threads(run, count, least) for result in part]
    return results[0] if len(results) == 1 else tuple(np.concatenate(parts) for parts in zip(*results))
