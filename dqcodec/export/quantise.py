"""Real weights become integers on grids of powers of two; the ranges of activations, measured on a calibration
batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from torch import Tensor, nn

from dqcodec.exact.model_file import Tensors
from dqcodec.frozen.autoregressive import GRID, LOG2_SCALE_GRID, LOGIT_GRID, MEAN_GRID

CONTEXT_BITS = int(np.log2(GRID))  # of the inputs of networks that see contexts
_HEADROOM = 1.5  # activations may grow by this over the calibration batch before they are clamped


def paired_columns(plane: int, inputs: int) -> np.ndarray:
    """The places, among a model's inputs of a plane's head, of a program's: pairs of an earlier plane's value and the same
    clamped, then the prediction's.
    """
    pairs = [part * plane + earlier for earlier in range(plane) for part in (0, 1)]
    return np.array([*pairs, *range(len(pairs), inputs)])


class Ranges(dict):
    """The largest |value| of each layer's output, and of other values, each under a key."""

    def see(self, key: object, values: Tensor) -> None:
        """Record the largest of some values under a key."""
        self[key] = max(self.get(key, 0.0), float(values.abs().max()))

    @contextmanager
    def watching(self, model: nn.Module, kinds: type, *inputs: tuple[nn.Module, str]) -> Iterator[None]:
        """Record the outputs of all layers of these kinds, and the inputs of some layers, (layer, key of its inputs)."""
        handles = [
            module.register_forward_hook(lambda module, _, output: self.see(module, output))
            for module in model.modules()
            if isinstance(module, kinds)
        ]
        handles += [
            module.register_forward_hook(lambda _, inputs, __, name=name: self.see(name, inputs[0]))
            for module, name in inputs
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def mixture_grids(mixtures: int) -> np.ndarray:
    """The grids of raw mixture parameters, in bits, (3 K,): of logits, means and log2 scales."""
    return np.log2([LOGIT_GRID, MEAN_GRID, LOG2_SCALE_GRID]).astype(int).repeat(mixtures)


def grid_of(level: int, largest: float) -> int:
    """The finest grid, in bits, on which a value of this size, with headroom, is an integer up to `level`."""
    return int(np.floor(np.log2(level / max(largest * _HEADROOM, 2.0**-8))))


def integers(
    weight: np.ndarray, bias: np.ndarray | None, weight_grid: np.ndarray, grid_in: int, grid_out: np.ndarray | int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(weight, bias, shift) of exact.networks.Conv and Linear, from float64 weights (O, ...) and biases (O,) or None.

    The grids are in bits: of each output's weights, of the inputs, of the outputs. The bias holds the rounding half.
    """
    shift = weight_grid + grid_in - grid_out
    scale = np.exp2(weight_grid).reshape(-1, *[1] * (weight.ndim - 1))
    biases = np.zeros(len(weight), np.int64)
    if bias is not None:
        biases = np.round(bias * np.exp2(weight_grid + grid_in)).astype(np.int64) + (np.int64(1) << (shift - 1))
    return np.round(weight * scale).astype(np.int64), biases, shift


def stored(name: str, weight: np.ndarray, bias: np.ndarray, shift: np.ndarray, kind: Callable = np.int32) -> Tensors:
    """The tensors of a layer; kind: the type of weights."""
    return {f"{name}.weight": weight.astype(kind), f"{name}.bias": bias, f"{name}.shift": shift.astype(np.int8)}
