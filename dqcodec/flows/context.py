"""The context of a pixel under an autoregressive density: its causal neighbours, normalised by their mean and spread.

All values lie on fixed grids, so that the integer twin (dqcodec.context.context) computes the same
numbers. Shapes: N = B H W pixels in raster order, P planes, n neighbours, F inputs.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from dqcodec.context.predictions import predict_tiles
from dqcodec.flows.planes import differences
from dqcodec.flows.transforms import Images
from dqcodec.frozen.autoregressive import (
    ERROR_FLOOR,
    FEATURE_PLACES,
    GRID,
    MOMENT_WEIGHTS,
    NEIGHBOURS,
    PREDICTION_BITS,
    REACH,
    SPREAD_FLOOR,
    STANDARD_BOUND,
)


class Moments(NamedTuple):
    """The local mean and spread of known pixels, for pixels and planes on the first two axes; exact in float32.

    sums: 8 times the mean, pixel steps. spreads: 64 times the spread, the mean absolute deviation plus 1/2, pixel steps.
    """

    sums: Float[Tensor, "N P *n"]
    spreads: Float[Tensor, "N P *n"]

    @property
    def mean(self) -> Float[Tensor, "N P *n"]:
        """The mean, pixel steps."""
        return self.sums / 8

    @property
    def spread(self) -> Float[Tensor, "N P *n"]:
        """The spread, pixel steps."""
        return self.spreads / 64

    @property
    def log_spread(self) -> Float[Tensor, "N P *n"]:
        """log2 of the spread, piecewise linear."""
        return log2_linear(self.spread)

    def standardise(self, values: Float[Tensor, "N p *n"]) -> Float[Tensor, "N p *n"]:
        """(value - mean) / spread on the grid, clamped; `values` are of the first p planes, pixel steps."""
        planes = values.shape[1]
        return _standardised(values, self.sums[:, :planes], self.spreads[:, :planes])

    def standardise_near(self, values: Float[Tensor, "N k P *n"]) -> Float[Tensor, "N k*P *n"]:
        """The same of k neighbours of each pixel, one after the other."""
        return _standardised(values, self.sums[:, None], self.spreads[:, None]).flatten(1, 2)

    def level(self, bits: int) -> Float[Tensor, "N P *n"]:
        """The mean on a scale of its own, on the grid, clamped; the first plane's is less the middle of its range."""
        level = self.sums.clone()
        level[:, 0] = torch.floor((self.sums[:, 0] - 2.0 ** (bits + 2)) * 2.0 ** (4 - bits))
        return level.clamp(-STANDARD_BOUND * GRID, STANDARD_BOUND * GRID) / GRID


class Prediction(NamedTuple):
    """The predictions by local least squares (dqcodec.context.least_squares).

    value: the prediction, pixel steps. standard: (value - mean) / spread, clamped to +-STANDARD_BOUND. log_error: log2
    of the mean absolute error of the nearest neighbours' predictions plus 1/4, piecewise linear.
    """

    value: Float[Tensor, "N P"]
    standard: Float[Tensor, "N P"]
    log_error: Float[Tensor, "N P"]


class Context(NamedTuple):
    """The context of each pixel and plane.

    moments: weighted ones of the nearest neighbours.
    inputs: the inputs of the network; F = n P + 2 P + 2.
    target: the pixel itself, pixel steps.
    standard: (target - mean) / spread, clamped to +-STANDARD_BOUND.
    prediction: by least squares, or None.
    """

    moments: Moments
    inputs: Float[Tensor, "N F"]
    target: Float[Tensor, "N P"]
    standard: Float[Tensor, "N P"]
    prediction: Prediction | None = None


def neighbours(y: Float[Tensor, "B P H W"], start: Float[Tensor, "P"]) -> Float[Tensor, "B n P H W"]:
    """The causal neighbours of each pixel, in the order of NEIGHBOURS.

    The nearest pixel inside stands for a place outside the image. If that pixel is not decoded yet, another one does:
    in the first column the pixel above stands for those to the left, and in the first row the left pixel for those
    above. At the first pixel `start` stands for all.
    """
    height, width = y.shape[2:]
    padded = F.pad(y, (REACH, REACH, REACH, 0), mode="replicate")
    shifted = [padded[:, :, REACH - dy : REACH - dy + height, REACH + dx : REACH + dx + width] for dy, dx in NEIGHBOURS]
    out = torch.stack(shifted, 1)
    above = torch.tensor([dy > 0 for dy, _ in NEIGHBOURS])
    west, north = NEIGHBOURS.index((0, -1)), NEIGHBOURS.index((1, 0))
    out[:, ~above, :, :, 0] = out[:, north, None, :, :, 0].clone()
    out[:, above, :, 0] = out[:, west, None, :, 0].clone()
    out[:, :, :, 0, 0] = start
    return out


@torch.no_grad()
def context(x: Images, bits: int, *, least_squares: bool = False) -> Context:
    """The context of every pixel. x: symbols 0 .. 2^bits - 1. least_squares: whether to predict by local least squares."""
    batch, channels, height, width = x.shape
    y = differences(x)
    start = torch.zeros(channels, device=x.device)
    start[0] = 2 ** (bits - 1)
    c = neighbours(y, start).permute(0, 3, 4, 1, 2).reshape(-1, len(NEIGHBOURS), channels)
    target = y.permute(0, 2, 3, 1).reshape(-1, channels)
    weights = torch.tensor(MOMENT_WEIGHTS, dtype=torch.float32, device=x.device)[:, None]
    near = c[:, : len(MOMENT_WEIGHTS)]
    sums = (weights * near).sum(1)
    moments = Moments(sums, (weights * (8 * near - sums[:, None]).abs()).sum(1) + SPREAD_FLOOR)
    border = torch.zeros(batch, height, width, 2, device=x.device)
    border[:, 0, :, 0] = border[:, :, 0, 1] = 1
    prediction = _prediction(y, bits, moments) if least_squares else None
    inputs = [moments.standardise_near(c), moments.log_spread, moments.level(bits), border.view(-1, 2)]
    return Context(moments, torch.cat(inputs, 1), target, moments.standardise(target), prediction)


def _prediction(y: Float[Tensor, "B P H W"], bits: int, moments: Moments) -> Prediction:
    tiles = y.permute(0, 2, 3, 1).to(torch.int16).cpu().numpy()
    value = torch.from_numpy(predict_tiles(tiles, bits)).to(y) / 2**PREDICTION_BITS
    errors = (y - value.permute(0, 3, 1, 2)).abs() * 2**PREDICTION_BITS
    near = neighbours(errors, errors.new_zeros(y.shape[1]))[:, : len(MOMENT_WEIGHTS)]
    weights = torch.tensor(MOMENT_WEIGHTS, dtype=torch.float32, device=y.device)[:, None]
    total = (weights * near.permute(0, 3, 4, 1, 2).flatten(0, 2)).sum(1) + ERROR_FLOOR  # 8 times the mean
    log_error = log2_linear(total / (8 << PREDICTION_BITS))
    value = value.flatten(0, 2)
    return Prediction(value, moments.standardise(value), log_error)


def _standardised(
    values: Float[Tensor, "*#n"], sums: Float[Tensor, "*#n"], spreads: Float[Tensor, "*#n"]
) -> Float[Tensor, "*n"]:
    bound = STANDARD_BOUND * GRID
    return torch.floor((8 * values - sums) * (256 / spreads) + 0.5).clamp(-bound, bound) / GRID


def log2_linear(spread: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """log2, piecewise linear between powers of two, on the grid."""
    mantissa, exponent = torch.frexp(spread)
    return torch.floor((exponent + 2 * mantissa - 2) * GRID) / GRID


def gather_features(features: Float[Tensor, "N K"], batch: int, height: int, width: int) -> Float[Tensor, "N nK"]:
    """The features of each pixel's neighbours at FEATURE_PLACES, side by side; zero outside the image."""
    grid = features.view(batch, height, width, -1).permute(0, 3, 1, 2)
    left, right, top = (max(values) for values in zip(*[(-dx, dx, dy) for dy, dx in FEATURE_PLACES]))
    padded = F.pad(grid, (left, right, top, 0))
    shifted = [padded[:, :, top - dy : top - dy + height, left + dx : left + dx + width] for dy, dx in FEATURE_PLACES]
    return torch.cat(shifted, 1).permute(0, 2, 3, 1).reshape(len(features), -1)
