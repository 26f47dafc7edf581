"""Verdicts from coding a sample of layers: which model suits them, and whether another method may be smaller.

Layers are (H, W, C) uint8.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.codec.effort import Effort
from dqcodec.codec.sampling import count_pixels, is_small, sample, sample_of_drawing, squares
from dqcodec.format.layer import Method
from dqcodec.methods import table

if TYPE_CHECKING:
    from dqcodec.exact.program import Program

    _Parts = tuple[tuple[tuple[int, ...], bytes], ...]  # shape and samples of each

# If a method takes more than this times the program's bits on a sample, it does not win
_HOPELESS = {Method.MODEL_MIXING: 1.0, Method.EXPERTS: 1.05}
_AHEAD = 0.97  # with less, it wins
_GAIN = 0.95  # with less, it gains so much that its time is well spent on large layers
_FEW_SIDE, _FEW_PARTS = 32, 4  # of the few pixels
_KEPT = 16  # results of trials: several methods are compared with the same program on the same sample
_LARGEST_SUITS = 1 << 10  # pixels: the largest program codes a lone layer best if it has these, nearly always


def best_program(
    layers: Sequence[np.ndarray], programs: Sequence[Program], effort: Effort = Effort.USUAL
) -> Program | None:
    """The program that codes a sample of the layers with the fewest bits, or None if no program fits all layers.

    Programs that take more multiplications than the effort allows are left out; if all do, the smallest is taken. A
    small lone layer takes the largest program without a trial, unless the effort is best: a trial would take longer
    than coding.
    """
    fitting = _fitting(layers, programs, effort)
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    is_untried = (
        len(layers) == 1 and is_small(layers) and count_pixels(layers) >= _LARGEST_SUITS and effort != Effort.BEST
    )
    if is_untried and all(map(multiplications, fitting)):
        return max(fitting, key=multiplications)
    parts = list(sample(layers))
    return min(fitting, key=lambda program: _bits(None, program, _frozen(parts)))


def _fitting(layers: Sequence[np.ndarray], programs: Sequence[Program], effort: Effort) -> list[Program]:
    """The programs that fit all layers and do not take more multiplications than the effort allows; else the smallest."""
    fitting = [program for program in programs if all(program.fits(layer.shape) for layer in layers)]
    limit = max(effort.multiplications, min(map(multiplications, fitting), default=0))
    return [program for program in fitting if multiplications(program) <= limit]


def drawing_bits(pixels: np.ndarray, programs: Sequence[Program], effort: Effort) -> float:
    """About the bits that a drawing takes by the largest program; inf if no program fits, 0 if no pixel differs."""
    fitting = _fitting([pixels], programs, effort)
    if not fitting:
        return float("inf")
    parts, sampled, total = sample_of_drawing(pixels)
    return _bits(None, max(fitting, key=multiplications), _frozen(parts)) * total / sampled if parts else 0.0


def multiplications(program: Program) -> int:
    """The multiplications a pixel of a program's network, as its card has them; 0 if it does not."""
    count = program.card.get("multiplications_per_pixel", 0)
    return count if type(count) is int else 0


def bits_ratio(method: Method, layers: Sequence[np.ndarray], program: Program) -> float:
    """The bits that a sample of the layers takes by a method, divided by its bits by the program alone."""
    parts = _frozen(sample(layers))
    return _bits(method, program, parts) / _bits(None, program, parts)


def alpha_ratio(layers: Sequence[np.ndarray]) -> float:
    """The bits that mixing takes for a sample of layers (H, W, 2 or 4), divided by those with their alpha apart."""
    parts = list(sample(layers))
    apart = [[part[..., :-1] for part in parts], [part[..., -1:] for part in parts]]
    beside, *of_apart = (_bits(Method.TRAINED_MIXING, None, _frozen(each)) for each in (parts, *apart))
    return beside / sum(of_apart)


def mixing_bits(layers: Sequence[np.ndarray]) -> float:
    """The bits that mixing takes for a sample of each of several layers, the same pixels of all."""
    alike = [
        [layer for layer in layers if layer.shape[2] == channels] for channels in {layer.shape[2] for layer in layers}
    ]
    parts = [_frozen(part for layer in each for part in sample([layer])) for each in alike]
    return sum(_bits(Method.TRAINED_MIXING, None, each) for each in parts)


def may_win(method: Method, layers: Sequence[np.ndarray], program: Program) -> bool:
    """Whether a method may take fewer bits than a program: by a sample of the layers, and always for small layers."""
    return is_small(layers) or bits_ratio(method, layers, program) <= _HOPELESS[method]


def surely_wins(method: Method, layers: Sequence[np.ndarray], program: Program) -> bool:
    """Whether a method surely takes fewer bits than a program alone: by a sample of the layers.

    Always for small layers, because the first loan makes a model alone larger there.
    """
    return is_small(layers) or bits_ratio(method, layers, program) < _AHEAD


def gains_much(method: Method, layers: Sequence[np.ndarray], program: Program) -> bool:
    """Whether a method surely takes far fewer bits than a program alone: by few pixels, and,
    if these say so, by a sample.
    """
    pixels = max(layers, key=lambda layer: layer[..., 0].size)
    parts = squares(pixels, _FEW_SIDE)
    chosen = {(2 * part + 1) * len(parts) // (2 * _FEW_PARTS) for part in range(_FEW_PARTS)}
    few = _frozen(parts[number] for number in sorted(chosen))
    is_likely = _bits(method, program, few) < _GAIN * _bits(None, program, few)
    return is_likely and bits_ratio(method, layers, program) < _GAIN


def _frozen(parts: Iterable[np.ndarray]) -> _Parts:
    return tuple((part.shape, part.tobytes()) for part in parts)


@functools.lru_cache(_KEPT)
def _bits(method: Method | None, program: Program | None, parts: _Parts) -> float:
    """The bits of parts by a method, with a program if it takes one; by the program alone if the method is None."""
    arrays = [np.frombuffer(samples, np.uint8).reshape(shape) for shape, samples in parts]
    return program.code_length(arrays) if method is None else 8 * len(table.encode(method, arrays, program).data)
