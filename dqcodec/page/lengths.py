"""The bits that each sample of each layer of a .dqc file takes, from the coders themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dqcodec.base.errors import UnsupportedImageError
from dqcodec.exact.program import FindProgram
from dqcodec.format.container import Group, owners
from dqcodec.methods import table
from dqcodec.png import MAX_PIXELS

_CHANNELS = {
    1: ("",), 2: ("gray", "alpha"), 3: ("red", "green", "blue"), 4: ("red", "green", "blue", "alpha")
}  # fmt: skip


@dataclass(frozen=True)
class LayerBits:
    """A layer, and the bits that its samples took.

    name: of its content. model: its name, or None. bits: float32 (H, W, C). is_even: the method does not give the bits
    of samples, so they are spread evenly. coded_bits: its part of the payload.
    """

    name: str
    method: str
    model: str | None
    bits: np.ndarray
    is_even: bool
    coded_bits: float

    @property
    def bound_bits(self) -> float | None:
        """-log2 of the probabilities that the coder gave, summed; None if they are not known."""
        return None if self.is_even else float(self.bits.sum(dtype=np.float64))

    @property
    def planes(self) -> list[tuple[str, np.ndarray]]:
        """(name, bits of each sample (H, W)) of each channel."""
        names = [" ".join(filter(None, (self.name, channel))) for channel in _CHANNELS[self.bits.shape[2]]]
        return [(name, self.bits[..., channel]) for channel, name in enumerate(names)]


def layer_bits(data: bytes, find_program: FindProgram, max_pixels: int = MAX_PIXELS) -> list[LayerBits]:
    """The layers of the .dqc file `data`, of one frame, with the bits of each sample.

    Raises UnsupportedImageError (an animation, or a stored file: it has no layers), and the errors of codec.decompress.
    """
    group = Group.unpack(data, max_pixels)
    (entry,) = group.entries
    if entry.skeleton is None:
        raise UnsupportedImageError("the PNG file is stored as it is, so there is no map of its bits")
    if len(entry.skeleton.sizes) > 1:
        raise UnsupportedImageError("an animation has no map of its bits")
    names, found = entry.split.names(entry.view), {}
    for payload, owned in zip(group.payloads, owners(group.entries)):
        numbers = [number for _, number in owned]
        layer, shapes = entry.layers[numbers[0]], [entry.shapes[number] for number in numbers]
        layers = table.decode(payload, layer, shapes, find_program)
        program = find_program(layer.model_id) if layer.model_id else None
        known = table.code_lengths(layer.method, layers, program)
        size, samples = 8 * len(payload), sum(pixels.size for pixels in layers)
        lengths = known or [np.full(pixels.shape, size / samples, np.float32) for pixels in layers]
        total = sum(float(bits.sum(dtype=np.float64)) for bits in lengths)
        for number, bits in zip(numbers, lengths):
            share = size * float(bits.sum(dtype=np.float64)) / total if total else 0.0
            model = program and program.name
            found[number] = LayerBits(names[number], layer.method.label, model, bits, known is None, share)
    return [found[number] for number in sorted(found)]


def per_sample(layers: list[LayerBits]) -> np.ndarray:
    """The mean bits of a pixel's samples in all layers, float32 (H, W)."""
    return np.concatenate([layer.bits for layer in layers], axis=2).mean(2)
