"""Which codecs there are to measure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dqcodec.bench.codecs import Codec
from dqcodec.bench.ours import Dqcodec
from dqcodec.bench.peers import PEERS

_OURS = {"dqcodec": False, "dqcodec-best": True}


def standard_names() -> list[str]:
    """Of dqcodec and its peers, in the order of reports."""
    return [*_OURS, *(peer.name for peer in PEERS)]


def select(names: Collection[str], models: Sequence[str]) -> list[Codec]:
    """The codecs of these names, all where there are none, and dqcodec with each of the models alone.

    Raises UnknownModelError, ModelError.
    """
    wanted = names or standard_names()
    ours = [Dqcodec(best=best) for name, best in _OURS.items() if name in wanted]
    return [*ours, *map(Dqcodec, dict.fromkeys(models)), *(peer for peer in PEERS if peer.name in wanted)]
