"""Evaluation: a model's bounds on data in floating point, and the bits that its integer program uses."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from dqcodec.ans.stack import Stack
from dqcodec.exact.program import Program
from dqcodec.flows.interlaced import InterlacedFlow
from dqcodec.flows.model import DequantizedModel, bits_per_dim
from dqcodec.flows.transforms import Images, PerImage

_CHUNK = 256  # importance weights in one batch
_NOISE_BYTES_PER_DIM = 16  # of the stack, for a push to borrow


@dataclass(frozen=True)
class Evaluation:
    """Rates, bits per dimension, averaged over crops.

    vi_bpd: the rate of bits-back coding. iw_bpd: the importance-weighted bound with `samples` samples.
    """

    crops: int
    samples: int
    vi_bpd: float
    iw_bpd: float

    @property
    def kl_bpd(self) -> float:
        """vi_bpd - iw_bpd: an estimate, from below, of KL(q(u|x) | p(u|x)), the loss of the dequantizer."""
        return self.vi_bpd - self.iw_bpd

    def as_dict(self) -> dict:
        """All rates, for JSON."""
        return dataclasses.asdict(self) | {"kl_bpd": self.kl_bpd}

    def line(self) -> str:
        """All rates in one line."""
        return (
            f"vi {self.vi_bpd:.4f} bpd, iw({self.samples}) {self.iw_bpd:.4f} bpd, "
            f"KL(q|p) {self.kl_bpd:.4f} bpd over {self.crops} crops"
        )


@torch.no_grad()
def evaluate(model: DequantizedModel, batches: Iterable[np.ndarray], samples: int, seed: int = 0) -> Evaluation:
    """Both bounds, from the same samples.

    Args:
        batches: symbols (B, C, H, W) uint8, as data.Crops.tiles gives them. samples: of the iw bound.
    """
    torch.manual_seed(seed)
    device = next(model.parameters()).device
    crops, vi_bits, iw_bits = 0, 0.0, 0.0
    for batch in batches:
        x = torch.from_numpy(batch).to(device, torch.float32, memory_format=torch.channels_last)
        vi, iw = _bounds(model, x, samples)
        vi_bits += bits_per_dim(vi, x[0].numel()).sum().item()
        iw_bits += bits_per_dim(iw, x[0].numel()).sum().item()
        crops += len(x)
    return Evaluation(crops, samples, vi_bits / crops, iw_bits / crops)


@torch.no_grad()
def mass_bpd(density: InterlacedFlow, batches: Iterable[np.ndarray]) -> float:
    """-log2 P(x), bits per dimension, averaged over images: symbols (B, C, H, W)."""
    masses = [bits_per_dim(density.log_mass(torch.from_numpy(batch).float()), batch[0].size) for batch in batches]
    return float(torch.cat(masses).double().mean())


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
