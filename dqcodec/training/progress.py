"""The display of a training's progress."""

from __future__ import annotations

import sys
import time
from types import TracebackType


class Progress:
    """The display of a training that shows nothing. Fractions are parts of the budget, 0 to 1."""

    def step(self, fraction: float, step: int, train_bpd: float) -> None:
        """Called every few steps with the mean bound of these steps, bits per dimension."""

    def milestone(self, fraction: float, metrics: dict) -> None:
        """Called with the metrics that were logged."""

    def __enter__(self) -> Progress:
        """Start the display."""
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """End the display."""


SILENT = Progress()


class LineProgress(Progress):
    """Prints a line for each milestone on stderr, with the remaining time."""

    def __init__(self):
        self._begun: tuple[float, float] | None = None  # (time, fraction) at the first step seen

    def step(self, fraction: float, step: int, train_bpd: float) -> None:
        """Remember when the first step was seen."""
        self._begun = self._begun or (time.monotonic(), fraction)

    def milestone(self, fraction: float, metrics: dict) -> None:
        """Print the metrics."""
        print(f"{100 * fraction:3.0f}%{self._left(fraction)}  {metrics_line(metrics)}", file=sys.stderr, flush=True)

    def _left(self, fraction: float) -> str:
        if self._begun is None or fraction >= 1 or fraction <= self._begun[1]:
            return ""
        pace = (time.monotonic() - self._begun[0]) / (fraction - self._begun[1])
        return f"  {pace * (1 - fraction) / 60:.0f} min left"


class BarProgress(Progress):
    """Shows a progress bar on the terminal (stderr), with a line for each milestone above it."""

    def __init__(self):
        from rich.console import Console
        from rich.progress import Progress as Bar

        self._bar = Bar(console=Console(stderr=True))
        self._task = self._bar.add_task("starting", total=1.0)

    def step(self, fraction: float, step: int, train_bpd: float) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=fraction, description=f"step {step}, {train_bpd:.3f} bpd")

    def milestone(self, fraction: float, metrics: dict) -> None:
        """Print the metrics above the bar."""
        self._bar.update(self._task, completed=fraction)
        self._bar.console.print(metrics_line(metrics), highlight=False)

    def __enter__(self) -> Progress:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Stop the bar."""
        self._bar.stop()


def on_stderr(quiet: bool) -> Progress:
    """The display for stderr: a bar on a terminal, lines elsewhere, nothing if `quiet`."""
    if quiet:
        return Progress()
    return BarProgress() if sys.stderr.isatty() else LineProgress()


def metrics_line(metrics: dict) -> str:
    """`step 398, minutes 3.0, ..., valid_bpd 3.96`"""
    return ", ".join(f"{key} {value}" for key, value in metrics.items() if value is not None)
