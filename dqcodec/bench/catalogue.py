"""The names of the codecs that the bench can measure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dqcodec.bench.codecs import Codec
from dqcodec.bench.ours import Dqcodec
from dqcodec.bench.peers import PEERS

_OURS = {"dqcodec-fast": {"fast": True}, "dqcodec": {}, "dqcodec-best": {"best": True}}  # name -> options


def standard_names() -> list[str]:
    """The names of dqcodec and its peers, in the order of reports."""
    return [*_OURS, *(peer.name for peer in PEERS)]


def select(names: Collection[str], models: Sequence[str]) -> list[Codec]:
    """The codecs with these names, or all codecs if there are no names; then dqcodec with each of the models only.

    Raises UnknownModelError: no model has this name; ModelError: a model file is malformed.
    """
    wanted = names or standard_names()
    ours = [Dqcodec(**options) for name, options in _OURS.items() if name in wanted]
    return [*ours, *map(Dqcodec, dict.fromkeys(models)), *(peer for peer in PEERS if peer.name in wanted)]
