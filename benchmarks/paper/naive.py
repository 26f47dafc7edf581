"""The paper's figure 2, naive likelihood: a Gaussian that is fitted to discrete points, and to the same points with noise.

    python benchmarks/paper/naive.py

The data are those of the binary checkerboard, 1 bit of entropy. The likelihood of the points themselves grows without bound,
and says nothing about the discrete distribution. With uniform noise it is the vi bound, at least 1 bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
from checkerboard import STATES
from torch import Tensor

from dqcodec.flows.densities import CovarianceGaussian
from dqcodec.flows.dequantizers import UniformDequantizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = (20, 40, 80, 140)  # iterations, as in the paper

_WITH_NOISE = (1000,)
_LEARNING_RATE = 0.1
_BATCH = 1000
_SIDE = 3.0  # of the picture, which begins at -1 / 2
_POINTS = 200
_RANGE_BITS = (-4.0, 8.0)


def main() -> None:
    """Draw the figure. Only this needs matplotlib."""
    from figures import FIGURES, pyplot

    FIGURES.mkdir(exist_ok=True)
    plt = pyplot()
    figure, axes = plt.subplots(1, 2 + len(SHOWN), figsize=(13, 2.6), layout="constrained")
    for axis, (step, density, bits) in zip(axes, fit(points, SHOWN)):
        shown = draw(axis, density, f"iteration {step}: {bits:.2f} bits")
        axis.plot([0, 1], [1, 0], "r.", markersize=4)
    ((step, density, bits),) = fit(dequantized, _WITH_NOISE)
    v = dequantized().flatten(1)
    axes[-2].plot(v[:, 0], v[:, 1], "r.", markersize=1)
    axes[-2].set(title="with uniform noise", xlim=axes[0].get_xlim(), ylim=axes[0].get_ylim(), aspect="equal")
    draw(axes[-1], density, f"iteration {step}: {bits:.2f} bits")
    for axis in axes:
        axis.title.set_fontsize(8)
        axis.tick_params(labelsize=6)
    bar = figure.colorbar(shown, ax=axes, extend="both")
    bar.set_label("-log2 density, bits", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    figure.savefig(FIGURES / "naive.png", dpi=100)
    plt.close(figure)


def points() -> Tensor:
    """The points of the data, (B, 2, 1, 1)."""
    return STATES.repeat(_BATCH // 2, 1, 1, 1)


def dequantized() -> Tensor:
    """The same with fresh uniform noise."""
    x, q = points(), UniformDequantizer()
    return q.value(x, q.sample(x)[0])


def fit(draw_batch: Callable[[], Tensor], steps: tuple[int, ...]) -> Iterator[tuple[int, CovarianceGaussian, float]]:
    """Fit a Gaussian with full covariance by gradient steps.

    Yields:
        After each number of steps in `steps`: (the number, the Gaussian, its mean -log2 density on a new batch, bits).
    """
    torch.manual_seed(0)
    density = CovarianceGaussian((2, 1, 1), 0.0, 1.0)
    optimiser = torch.optim.Adam(density.parameters(), _LEARNING_RATE)
    for step in range(1, max(steps) + 1):
        optimiser.zero_grad()
        (-density.log_prob(draw_batch()).mean()).backward()
        optimiser.step()
        if step in steps:
            with torch.no_grad():
                yield step, density, -density.log_prob(draw_batch()).mean().item() / math.log(2)


@torch.no_grad()
def draw(axis: Axes, density: CovarianceGaussian, title: str):
    """Draw -log2 of a density."""
    from figures import grid

    bits = -density.log_prob(grid(_POINTS, _SIDE) - 0.5) / math.log(2)
    extent = (-0.5, _SIDE - 0.5, -0.5, _SIDE - 0.5)
    axis.set_title(title)
    least, most = _RANGE_BITS
    values = bits.view(_POINTS, _POINTS).numpy()
    return axis.imshow(values, origin="lower", extent=extent, vmin=least, vmax=most, cmap="viridis_r")


if __name__ == "__main__":
    main()
