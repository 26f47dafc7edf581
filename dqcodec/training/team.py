"""Several processes that train one model together, as torchrun starts them: each sees its part of every batch."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """rank: which of `size` processes this one is; the first leads."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: str) -> "Team":
        """The processes that torchrun started, or this one alone. device: cpu or cuda."""
        if not dist.is_torchelastic_launched():
            return cls()
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def leads(self) -> bool:
        """Whether this process writes and tells what all of them do."""
        return self.rank == 0

    def part(self, batch: Tensor) -> Tensor:
        """This process's part (B / size, ...) of a batch."""
        return batch[self.rank :: self.size]

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace tensors by their means over all processes."""
        if self.size == 1:
            return
        tensors = list(tensors)
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat)
        for tensor, mean in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(mean.view_as(tensor) / self.size)

    def agree(self, value: T) -> T:
        """The leader's value, for all."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values)
        return values[0]
