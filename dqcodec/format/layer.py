"""How a layer is coded: by which method, and with which model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

MODEL_ID_BYTES = 8


class Method(IntEnum):
    """How a layer is coded. The numbers are part of the format. STORED: the PNG file is kept, without layers."""

    STORED = 0
    CLASSICAL = 1
    FLOW = 2
    AUTOREGRESSIVE = 3
    MIXING = 4
    MODEL_MIXING = 5
    PIXEL_MIXING = 7  # 6 would make a head look like that of a repeated image
    EXPERTS = 8
    ANIMATION = 9  # the codes 10, 11 and 13 are of models that the head has named before
    JPEG = 12
    TRAINED_MIXING = 14

    @property
    def label(self) -> str:
        """The name in messages: `model-mixing`."""
        return self.name.lower().replace("_", "-")


LEARNED = {Method.FLOW, Method.AUTOREGRESSIVE, Method.MODEL_MIXING}  # methods that need a model
LAYER_METHODS = set(Method) - {Method.STORED}  # methods that code layers
TOGETHER = LAYER_METHODS - {Method.CLASSICAL}  # methods that code layers together
WHOLE_CODES = {
    Method.EXPERTS,
    Method.ANIMATION,
    Method.JPEG,
    Method.TRAINED_MIXING,
}  # methods whose number is their code; bit 3 says nothing of a model


@dataclass(frozen=True)
class Layer:
    """A layer in a head. model_id: 8 bytes, or b"" for a method without a model."""

    method: Method
    model_id: bytes = b""
