"""How long to train."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """How long to train, resumed runs included: minutes of wall-clock time, or a number of images."""

    minutes: float | None = None
    images: int | None = None

    def fraction(self, seconds: float, images: int) -> float:
        """The spent part of the budget, 0 to 1."""
        spent = images / self.images if self.images else seconds / 60 / self.minutes
        return min(1.0, spent)
