"""The totals as a Markdown table, aligned so that it is readable as text."""

from __future__ import annotations

from collections.abc import Sequence

from dqcodec.bench.report import BenchReport, Total

_HEADER = ("codec", "images", "bytes", "bpd", "% of PNG", "enc MP/s", "dec MP/s", "peak MB", "failed")


def markdown(report: BenchReport) -> str:
    """The table, smallest ratio first, and the notes below it."""
    totals = sorted(report.totals, key=lambda total: (total.ratio is None, total.ratio))
    cells = [_HEADER, *map(_cells, totals)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [_line(row, widths) for row in (cells[0], rule, *cells[1:])]
    return "\n".join([*lines, "", *(f"- {note}" for note in report.notes()), ""])


def _cells(total: Total) -> tuple[str, ...]:
    done = total.images > 0
    return (
        total.title,
        str(total.images),
        str(total.bytes) if done else "-",
        f"{total.bpd:.3f}" if done else "-",
        f"{100 * total.ratio:.1f}" if done else "-",
        _speed(total.encode_mp_s),
        _speed(total.decode_mp_s),
        f"{total.peak_memory_bytes / 1e6:.0f}" if done else "-",
        str(total.errors),
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cells[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))]
    return f"| {' | '.join(padded)} |"


def _speed(value: float | None) -> str:
    """With three significant digits."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
