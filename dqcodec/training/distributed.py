"""Processes that train one model together, started by torchrun. Each of them sees a part of every batch."""

import atexit
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class ProcessGroup:
    """This process's view of all processes.

    rank: the index of this process, 0 for the leader. size: the number of processes.
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: str) -> "ProcessGroup":
        """The group that torchrun started, or a group of this process only. device: cpu or cuda."""
        if not dist.is_torchelastic_launched():
            return cls()
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
        atexit.register(dist.destroy_process_group)  # else a thread of it may abort the process at its end
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def is_leader(self) -> bool:
        """Whether this process writes files and displays progress."""
        return self.rank == 0

    def shard(self, batch: Tensor) -> Tensor:
        """This process's part of a batch, (B / size, ...)."""
        return batch[self.rank :: self.size]

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over all processes."""
        if self.size == 1:
            return
        tensors = list(tensors)
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat)
        for tensor, mean in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(mean.view_as(tensor) / self.size)

    def broadcast(self, value: T) -> T:
        """The leader's value, in all processes."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values)
        return values[0]
