"""Layers of integer networks: convolutions and linear layers.

Activations and weights are integers, stored as floats. When a model loads, its weights prove that every sum stays below
2^24 (float32) or 2^53 (float64). Such a sum is exact in any order, so batch, threads and instruction set cannot change
a bit. Arrays are (B, H, W, C).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dqcodec.base.errors import ModelError
from dqcodec.exact.model_file import Tensors


@dataclass(frozen=True)
class Conv:
    """An exact convolution: floor((sum of w a + bias) 2^-shift) for each output channel, clamped to [low, high].

    weight: int (O, I, k, k), k is 1 or 3; the input is padded with zeros. bias: int (O,), with the half for rounding.
    shift: int (O,), 1 to 40. low, high: numbers or (O,). max_input: the proven bound of |a|.
    """

    weight: np.ndarray
    bias: np.ndarray
    shift: np.ndarray
    low: np.ndarray | int
    high: np.ndarray | int
    max_input: int

    def __post_init__(self):
        """Raise ModelError unless the tensors fit together and all sums are proven exact."""
        w = self.weight
        if w.ndim != 4 or w.shape[2:] not in {(1, 1), (3, 3)} or not self.bias.shape == self.shift.shape == w.shape[:1]:
            raise ModelError("a convolution's tensors do not fit together")
        if self.shift.min() < 1 or self.shift.max() > 40 or self.bound >= 1 << 53:
            raise ModelError("a convolution's sums are not proven exact")

    @property
    def outputs(self) -> int:
        """The number of output channels O."""
        return self.weight.shape[0]

    @property
    def inputs(self) -> int:
        """The number of input channels I."""
        return self.weight.shape[1]

    @cached_property
    def bounds(self) -> np.ndarray:
        """A bound on the magnitude of all partial sums of each output, (O,) float64."""
        per_output = np.abs(self.weight.astype(np.float64)).sum((1, 2, 3)) * self.max_input  # exact below 2^53
        return per_output + np.abs(self.bias.astype(np.float64))

    @property
    def bound(self) -> int:
        """A bound on the magnitude of all partial sums."""
        return int(self.bounds.max())

    @cached_property
    def dtype(self) -> type:
        """float32 if all sums are below 2^24, otherwise float64."""
        return np.float32 if self.bound < 1 << 24 else np.float64

    @cached_property
    def _matrices(self) -> np.ndarray:
        """(k, k I, O): one matrix for each kernel row, scaled by 2^-shift, which is exact."""
        scaled = self.weight * np.ldexp(1.0, -self.shift)[:, None, None, None]
        k = scaled.shape[2]
        return np.ascontiguousarray(scaled.transpose(2, 3, 1, 0).reshape(k, -1, len(scaled)).astype(self.dtype))

    @cached_property
    def scaled_bias(self) -> np.ndarray:
        """The bias times 2^-shift, (O,), exact."""
        return (self.bias * np.ldexp(1.0, -self.shift)).astype(self.dtype)

    def sums(self, a: np.ndarray) -> np.ndarray:
        """Activations (B, H, W, I) -> scaled sums before bias and rounding, (B, H, W, O)."""
        a = a.astype(self.dtype, copy=False)
        matrices = self._matrices
        if len(matrices) == 1:
            return a @ matrices[0]
        batch, height, width, channels = a.shape
        # for each pixel: its left neighbour, itself and its right neighbour; zero outside of the border
        rows = np.zeros((batch, height + 2, width, 3, channels), self.dtype)
        rows[:, 1:-1, 1:, 0] = a[:, :, :-1]
        rows[:, 1:-1, :, 1] = a
        rows[:, 1:-1, :-1, 2] = a[:, :, 1:]
        rows = rows.reshape(batch, (height + 2) * width, 3 * channels)
        out = rows[:, : height * width] @ matrices[0]
        for dy in (1, 2):
            out += rows[:, dy * width : (dy + height) * width] @ matrices[dy]
        return out.reshape(batch, height, width, -1)

    def finish(self, sums: np.ndarray) -> np.ndarray:
        """Add the bias, round and clamp, in place."""
        sums += self.scaled_bias
        np.floor(sums, out=sums)
        np.clip(sums, self.low, self.high, out=sums)
        return sums

    def __call__(self, a: np.ndarray) -> np.ndarray:
        """Activations (B, H, W, I) -> (B, H, W, O)."""
        return self.finish(self.sums(a))


class Linear(Conv):
    """A convolution of kernel size 1 on rows of activations: (N, I) -> (N, O)."""

    @cached_property
    def weights(self) -> np.ndarray:
        """The weights (I, O), scaled by 2^-shift."""
        return self._matrices[0]

    @cached_property
    def matrix(self) -> np.ndarray:
        """The weights (I + 1, O), scaled by 2^-shift; the last row is the bias."""
        return np.concatenate([self.weights, self.scaled_bias[None]])


def check_chain(name: str, *convs: Conv) -> None:
    """Raise ModelError unless each convolution takes the outputs of the one before, and the last clamp has its
    shape."""
    last = convs[-1]
    if any(a.outputs != b.inputs for a, b in zip(convs, convs[1:])) or np.shape(last.high) not in {(), (last.outputs,)}:
        raise ModelError(f"{name}: a network's tensors do not fit together")


def load_level(tensors: Tensors, name: str) -> int:
    """The bound of a network's activations. Below 2^22, a sum of three is exact in float32. Raises ModelError."""
    level = int(tensors[f"{name}.level"])
    if not 0 < level < 1 << 22:
        raise ModelError(f"{name}: a network's activations are not proven exact")
    return level


def load_conv(tensors: Tensors, name: str, max_input: int, low, high) -> Conv:
    """A Conv of the tensors `name`.weight, .bias and .shift.

    Raises ModelError: a tensor is missing, or the sums are not proven exact.
    """
    try:
        weight, bias, shift = (tensors[f"{name}.{part}"] for part in ("weight", "bias", "shift"))
    except KeyError as error:
        raise ModelError(f"the model file lacks the tensor {error}") from None
    return Conv(weight, bias.astype(np.int64), shift.astype(np.int64), low, high, max_input)


def load_linear(tensors: Tensors, name: str, max_input: int, low, high) -> Linear:
    """A Linear of the tensors of load_conv, with a weight (O, I). Raises ModelError, also if float32 is not exact."""
    weight = tensors.get(f"{name}.weight", np.zeros(0))
    conv = load_conv({**tensors, f"{name}.weight": weight[..., None, None]}, name, max_input, low, high)
    if conv.dtype != np.float32:
        raise ModelError(f"{name}: a network's sums are not proven exact")
    return Linear(conv.weight, conv.bias, conv.shift, low, high, max_input)
