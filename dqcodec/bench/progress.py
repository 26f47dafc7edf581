"""The display of a measurement's progress on stderr.

It is a line for each image; on a terminal also a bar and the remaining time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dqcodec.bench.measure import Row


def line(rows: Sequence[Row]) -> str:
    """`a.png bpd: dqcodec 3.09, png 4.35, qoi failed`, from the rows of one image."""
    return f"{rows[0].image} bpd: " + ", ".join(f"{row.codec} {_rate(row)}" for row in rows)


@contextmanager
def shown(count: int, quiet: bool) -> Iterator[tuple[Callable[[Row], None], Callable[[str], None]]]:
    """Two functions: the first is called with each of `count` rows, the second prints a line."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, quiet=quiet)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=count)
        yield (
            lambda row: bar.update(task, advance=1, description=f"{row.codec} {row.image}"),
            lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True),
        )


def _rate(row: Row) -> str:
    if row.measured is None:
        return "failed" if row.error else "n/a"
    return f"{8 * row.measured.bytes / row.measured.dims:.3f}"
