"""The method model mixing: context mixing with the predictions of an autoregressive model. It is the slowest method,
and gives the smallest files.

Layers are divided into tiles and stacks as in autoregressive.py. All stacks share one code and one mixer, which keeps
what it learns. The payload is the code, see exact/mixing/.
"""

from collections.abc import Sequence

import numpy as np

from dqcodec.base.threads import single_thread
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.boxes import part, sides
from dqcodec.exact.mixing.context_mixing import Mixer
from dqcodec.exact.mixing.model_mixing import mix, unmix
from dqcodec.methods.autoregressive import stacks
from dqcodec.methods.payload import Payload


def encode(layers: Sequence[np.ndarray], program: AutoregressiveProgram) -> Payload:
    """The payload of layers (H, W, C) uint8. C and the bits of samples are those of the program."""
    return Payload(_code(layers, program)[0])


def decode(payload: bytes, shapes: Sequence[tuple[int, int, int]], program: AutoregressiveProgram) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload. A damaged payload gives wrong layers, no error; the checksum finds
    them."""
    mixer = Mixer.new(shapes, [program.bits] * len(shapes), payload)
    layers = [np.empty(shape, np.uint8) for shape in shapes]
    with single_thread():
        for boxes in stacks([shape[:2] for shape in shapes], program):
            for box, pixels in zip(boxes, unmix(program, [sides(box) for box in boxes], mixer)):
                part(layers, box)[:] = pixels
    return layers


def code_lengths(layers: Sequence[np.ndarray], program: AutoregressiveProgram) -> list[np.ndarray]:
    """The bits of each sample of layers that are coded together, float32 (H, W, C) each."""
    return _code(layers, program)[1]


def _code(layers: Sequence[np.ndarray], program: AutoregressiveProgram) -> tuple[bytes, list[np.ndarray]]:
    """The code of layers, and the bits of each sample."""
    mixer = Mixer.new([layer.shape for layer in layers], [program.bits] * len(layers))
    lengths = [np.empty(layer.shape, np.float32) for layer in layers]
    with single_thread():
        for boxes in stacks([layer.shape[:2] for layer in layers], program):
            for box, bits in zip(boxes, mix(program, [part(layers, box) for box in boxes], mixer)):
                part(lengths, box)[:] = bits
    return mixer.coder.finish(), lengths
