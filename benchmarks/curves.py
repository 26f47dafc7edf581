"""Draw the learning curves of the released models.

python benchmarks/curves.py [-o models/curves.png]
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_MODELS = Path(__file__).resolve().parents[1] / "models"


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=_MODELS / "curves.png")
    arguments = parser.parse_args()
    runs = sorted(_MODELS.glob("*/metrics.jsonl"))
    figure, axes = plt.subplots(1, len(runs), figsize=(3.2 * len(runs), 2.8), layout="constrained")
    for axis, run in zip(axes, runs):
        draw(axis, run)
    axes[0].set_ylabel("bits per dimension")
    figure.savefig(arguments.output, dpi=110)


def draw(axis, run: Path) -> None:
    """Draw the bounds on training and validation crops over the minutes of training.

    The two kinds of crops come from different images; those for validation are harder.
    """
    points = [json.loads(line) for line in run.read_text().splitlines()]
    for key, label in (("train_bpd", "training crops"), ("valid_bpd", "validation crops, averaged weights")):
        known = [(point["minutes"], point[key]) for point in points if point.get(key) is not None]
        axis.plot(*zip(*known), label=label, marker=".", markersize=3, linewidth=1)
    later = [point[key] for point in points[1:] for key in ("train_bpd", "valid_bpd") if point[key] is not None]
    axis.set_ylim(min(later) - 0.05, sorted(later)[len(later) * 19 // 20] + 0.05)
    axis.set_title(f"{run.parent.name}: {points[-1]['valid_bpd']:.3f} bpd", fontsize=10)
    axis.set_xlabel("minutes, one CPU core")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=6)


if __name__ == "__main__":
    main()
