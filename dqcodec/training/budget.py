"""How long to train."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """How long to train, resumed runs included: minutes of wall-clock time, or a number of images.

    Raises ValueError: not exactly one of them is given, or it is not above 0.
    """

    minutes: float | None = None
    images: int | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        given = [value for value in (self.minutes, self.images) if value is not None]
        if len(given) != 1 or not given[0] > 0:
            raise ValueError(
                f"a budget is minutes or images, above 0, not {self.minutes} minutes and {self.images} images"
            )

    def fraction(self, seconds: float, images: int) -> float:
        """The spent part of the budget, 0 to 1."""
        spent = images / self.images if self.images is not None else seconds / 60 / self.minutes
        return min(1.0, spent)
