"""Evaluation: a model's bounds on data in floating point, and the bits that its integer program uses."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dqcodec.ans.stack import Stack
from dqcodec.exact.program import Program
from dqcodec.flows.model import AutoregressiveModel, DequantizedModel, bits_per_dim
from dqcodec.flows.transforms import Images, PerImage

_CHUNK = 256  # importance weights in one batch
_NOISE_BYTES_PER_DIM = 16  # of the stack, for a push to borrow


@dataclass(frozen=True)
class Evaluation:
    """Rates, bits per dimension, averaged over crops; each error is the standard error of such a mean.

    vi_bpd: the rate of bits-back coding. iw_bpd: the importance-weighted bound with `samples` samples. mass_bpd: -log2
    P(x), exact; None if the density does not know it. kl_bpd: of KL(q(u|x) | p(u|x)), the loss of the dequantizer.
    Where P(x) is known it is vi_bpd - mass_bpd, unbiased with the noise of vi alone; else it is vi_bpd - iw_bpd, an
    estimate from below.
    """

    crops: int
    samples: int
    vi_bpd: float
    vi_error_bpd: float
    iw_bpd: float
    iw_error_bpd: float
    mass_bpd: float | None
    kl_bpd: float
    kl_error_bpd: float

    def as_dict(self) -> dict:
        """All rates, for JSON. Without a known P(x), mass_bpd is left out."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}

    def line(self) -> str:
        """All rates in one line."""
        mass = "" if self.mass_bpd is None else f"-log2 P(x) {self.mass_bpd:.4f} bpd, "
        return (
            f"vi {self.vi_bpd:.4f} ± {self.vi_error_bpd:.4f} bpd, iw({self.samples}) {self.iw_bpd:.4f} bpd, {mass}"
            f"KL(q|p) {self.kl_bpd:.4f} ± {self.kl_error_bpd:.4f} bpd over {self.crops} crops"
        )


@torch.no_grad()
def evaluate(model: DequantizedModel, batches: Iterable[np.ndarray], samples: int, seed: int = 0) -> Evaluation:
    """Both bounds, from the same samples, and log P(x) if the density knows it.

    Args:
        batches: symbols (B, C, H, W) uint8, as data.Crops.tiles gives them. samples: of the
            iw bound; vi is a mean over them.
    """
    torch.manual_seed(seed)
    device = next(model.parameters()).device
    rates = []
    for batch in batches:
        x = torch.from_numpy(batch).to(device, torch.float32, memory_format=torch.channels_last)
        mass = model.density.log_mass(x)
        # each bound of an autoregressive model is log P(x) itself
        vi, iw = [mass.double()] * 2 if isinstance(model, AutoregressiveModel) else _bounds(model, x, samples)
        best = iw if mass is None else mass.double()  # the nearest to log P(x)
        rates.append(bits_per_dim(torch.stack([vi, iw, best, vi - best]), x[0].numel()).cpu())
    vi, iw, best, kl = (torch.cat(rates, 1)[row] for row in range(4))
    return Evaluation(len(vi), samples, *_mean(vi), *_mean(iw), None if mass is None else _mean(best)[0], *_mean(kl))


def _mean(rates: Tensor) -> tuple[float, float]:
    """(the mean of rates (N,), its standard error: 0 for a single one)."""
    error = rates.std().item() / len(rates) ** 0.5 if len(rates) > 1 else 0.0
    return rates.mean().item(), error


def _bounds(model: DequantizedModel, x: Images, samples: int) -> tuple[PerImage, PerImage]:
    """(vi, iw) of each image, float64, nats. The weights are computed in chunks."""
    total = x.new_zeros(len(x), dtype=torch.float64)
    log_sum = torch.full_like(total, -math.inf)
    left = samples
    while left:
        count = min(left, max(1, _CHUNK // len(x)))
        log_weights = model.log_weights(x, count).double()
        total += log_weights.sum(0)
        log_sum = torch.logaddexp(log_sum, torch.logsumexp(log_weights, 0))
        left -= count
    return total / samples, log_sum - math.log(samples)


def coded_bpd(program: Program, x: np.ndarray) -> float:
    """Bits per dimension that symbols (B, C, H, W) add to a stack of random bits."""
    stack = Stack(np.random.default_rng(0).bytes(_NOISE_BYTES_PER_DIM * x.size))
    before, x = stack.bits, x.transpose(0, 2, 3, 1)
    program.push_images(stack, x)
    return (stack.bits - before) / x.size
