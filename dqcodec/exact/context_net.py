"""The exact network of an autoregressive density, twin of flows.autoregressive_density.ContextNet, over columns (features, N)."""

import numpy as np

from dqcodec.errors import ModelError
from dqcodec.exact.context import FEATURE_PLACES, GRID, STANDARD_BOUND, inputs
from dqcodec.exact.mixture import MEAN_BOUND
from dqcodec.exact.networks import Tensors, check_chain, leaky, load_level, load_linear, with_ones

_BOUND = STANDARD_BOUND * GRID
_MAX_LOGIT = 1 << 20
_MAX_LEVEL = 1 << 16  # times gradients below 2^17, summed over the 2^20 pixels of a front at most, stays below 2^53
_MAX_LOG_SCALE = 1 << 14


class ContextNet:
    """See the module. Raises ModelError where the tensors do not fit, or their sums are not proven exact."""

    def __init__(self, planes: int, features: int, blocks: int, mixtures: int, tensors: Tensors):
        self.own_inputs, self.level = inputs(planes), load_level(tensors, "net")
        if self.level > _MAX_LEVEL:
            raise ModelError("a network's learning is not proven exact")
        level = np.float32(self.level)
        self.features = load_linear(tensors, "net.features", _BOUND, np.float32(-_BOUND), np.float32(_BOUND))
        self.first = load_linear(tensors, "net.in", _BOUND, -level, level)
        self.blocks = [
            tuple(load_linear(tensors, f"net.{index}.{part}", self.level, -level, level) for part in (1, 2))
            for index in range(blocks)
        ]
        self.heads = load_linear(tensors, "net.heads", self.level, -level, level)
        self.known = [load_linear(tensors, f"net.known.{plane}", _BOUND, -level, level) for plane in range(1, planes)]
        high = np.repeat([_MAX_LOGIT, MEAN_BOUND, _MAX_LOG_SCALE], mixtures).astype(np.float32)[:, None]
        self.out = [load_linear(tensors, f"net.out.{plane}", self.level, -high, high) for plane in range(planes)]
        self._check(planes, features, 3 * mixtures)

    def _check(self, planes: int, features: int, outputs: int) -> None:
        """Raises ModelError unless the layers fit together, and the sums that two of them enter are exact too."""
        check_chain("net", self.first, *[linear for block in self.blocks for linear in block], self.heads)
        head = self.heads.outputs // planes
        if self.heads.outputs % planes or any(out.inputs != head or out.outputs != outputs for out in self.out):
            raise ModelError("a network's tensors do not fit together")
        if any(second.outputs != self.first.outputs for _, second in self.blocks):
            raise ModelError("a network's tensors do not fit together")
        if self.features.inputs != self.own_inputs + planes or self.features.outputs != features:
            raise ModelError("a network's features do not fit their place")
        if self.first.inputs != self.own_inputs + len(FEATURE_PLACES) * features:
            raise ModelError("a network's input does not fit its place")
        for plane, known in enumerate(self.known, 1):
            # both enter one sum
            part = slice(plane * head, (plane + 1) * head)
            if known.inputs != 2 * plane or known.outputs != head or (known.shift != self.heads.shift[part]).any():
                raise ModelError("a network's heads do not fit together")
            if (self.heads.bounds[part] + known.bounds).max() >= 1 << 24:
                raise ModelError("a network's sums are not proven exact")

    def head_sums(self, seen: np.ndarray, told: np.ndarray) -> np.ndarray:
        """What all heads start from (planes head, N), from contexts (inputs, N) and neighbours' features (N, features)."""
        h = self.first.matrix[:, : self.own_inputs] @ seen
        h += self.first.matrix[:, self.own_inputs : -1] @ told.T
        h += self.first.matrix[:, -1:]
        self.first.rounded(h)
        a = with_ones(*h.shape)
        for first, second in self.blocks:
            leaky(h, a[:-1])
            h += second(first.activated(a))
            h.clip(second.low, second.high, out=h)
        leaky(h, a[:-1])
        return self.heads.sums(a)

    def head(self, plane: int, sums: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The last layer's input (head + 1, N) of a plane, from head_sums; known: see `tell`, the planes before it."""
        rows = len(sums) // len(self.out)
        own = sums[plane * rows : (plane + 1) * rows]
        if plane:
            own = own + self.known[plane - 1].matrix[:, :-1] @ known[: 2 * plane]
        return self.heads.activate(own, with_ones(*own.shape))

    @staticmethod
    def tell(known: np.ndarray, plane: int, standard: np.ndarray) -> None:
        """Enter a standardised plane into known (2 planes, N): as it is, and within one spread."""
        known[2 * plane] = standard
        standard.clip(np.float32(-GRID), np.float32(GRID), out=known[2 * plane + 1])

    def tells(self, seen: np.ndarray, known: np.ndarray) -> np.ndarray:
        """What a pixel tells its successors (features, N), from its context and value."""
        a = with_ones(self.features.inputs, seen.shape[1])
        a[: self.own_inputs] = seen
        a[self.own_inputs : -1] = known[::2]
        return self.features.activated(a)[:-1]
