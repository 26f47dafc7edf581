"""Archives as training sets of PyTorch: ArchiveDataset, and GroupBatchSampler, which decodes each group of it once."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, Sampler

from dqcodec.base.errors import DqcodecError
from dqcodec.codec.archive import Archive
from dqcodec.png import MAX_PIXELS


class ArchiveDataset(Dataset):
    """The images of an archive, by number.

    An item is `transform(pixels)`, or, with `target`, the pair of it and `target(name)`. pixels: a new array (H, W) or
    (H, W, C), uint8 or uint16, see Archive.read. Without a transform the item is a tensor (C, H, W).

    An archive decodes a group of images at a time. Each process keeps the groups that it used last. So reading in order
    is fast, and so is any order of an archive that fits into `cache_bytes`; otherwise GroupBatchSampler shuffles. The
    dataset can be pickled, if transform and target can, and forked.

    names: of the images, in the order of the archive. groups: the numbers of each group's images.
    """

    def __init__(
        self,
        archive: str | os.PathLike,
        transform: Callable[[np.ndarray], Any] | None = None,
        target: Callable[[str], Any] | None = None,
        *,
        names: Iterable[str] | None = None,
        cache_bytes: int = 1 << 28,
        max_pixels: int = MAX_PIXELS,
    ):
        """Open an archive by its path. names: the images to take; None: all. cache_bytes: of decoded pixels that each
        process keeps, one group at least.

        Raises KeyError (the archive has no such name), and the errors of Archive.
        """
        self.transform, self.target, self.cache_bytes = transform, target, cache_bytes
        self._archive = Archive(archive, max_pixels=max_pixels)
        in_groups = [self._archive.names(number) for number in range(len(self._archive.group_sizes))]
        chosen = None if names is None else set(names)
        if chosen is not None and (unknown := sorted(chosen - set(self._archive))):
            raise KeyError(unknown[0])
        self.names: list[str] = []
        self.groups: list[range] = []
        for group in in_groups:
            taken = [name for name in group if name is not None and (chosen is None or name in chosen)]
            if taken:
                self.groups.append(range(len(self.names), len(self.names) + len(taken)))
                self.names += taken
        self._group_of = np.repeat(np.arange(len(self.groups)), [len(group) for group in self.groups])
        self._start()

    def _start(self) -> None:
        # the group that was used last is the last
        self._kept: OrderedDict[int, list[np.ndarray | DqcodecError]] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the archive's file; also done when the dataset is deleted."""
        if hasattr(self, "_archive"):
            self._archive.close()

    __del__ = close

    def __len__(self) -> int:
        """The number of images."""
        return len(self.names)

    def __getitem__(self, index: int) -> Any:
        """An item, see the class; raises IndexError, and the errors of Archive.read, which then name the file."""
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        group = int(self._group_of[index])
        decoded = self._decoded(group)[index - self.groups[group].start]
        if isinstance(decoded, DqcodecError):
            raise type(decoded)(f"{self.names[index]}: {decoded}")
        pixels = decoded.copy()
        item = _tensor(pixels) if self.transform is None else self.transform(pixels)
        return item if self.target is None else (item, self.target(self.names[index]))

    def _decoded(self, group: int) -> list[np.ndarray | DqcodecError]:
        """The pixels of a group's images; an error does not keep the others from being read."""
        with self._lock:
            if group not in self._kept:
                self._kept[group] = [self._read(self.names[index]) for index in self.groups[group]]
                sizes = [sum(getattr(each, "nbytes", 0) for each in images) for images in self._kept.values()]
                while len(self._kept) > 1 and sum(sizes) > self.cache_bytes:
                    self._kept.popitem(last=False)
                    del sizes[0]
            self._kept.move_to_end(group)
            return self._kept[group]

    def _read(self, name: str) -> np.ndarray | DqcodecError:
        try:
            return self._archive.read(name)
        except DqcodecError as error:
            return error.with_traceback(None)

    def __getstate__(self) -> dict[str, Any]:
        """The state without the decoded groups."""
        return {key: value for key, value in vars(self).items() if key not in ("_kept", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()


class GroupBatchSampler(Sampler[list[int]]):
    """Batches of random images, for a DataLoader of an ArchiveDataset, so that an epoch decodes each group once.

    Each worker has its own groups, the same in every epoch; batch n comes from worker n modulo `workers`, as DataLoader
    deals them. A worker takes its groups in random order, `mixed` at a time, and their images in random order.

        DataLoader(dataset, batch_sampler=GroupBatchSampler(dataset, 64, workers=4), num_workers=4)
    """

    def __init__(
        self,
        dataset: ArchiveDataset,
        batch_size: int,
        *,
        workers: int = 1,
        mixed: int = 4,
        drop_last: bool = False,
        generator: torch.Generator | None = None,
    ):
        """workers: num_workers of the DataLoader. mixed: groups whose images are shuffled together; they should fit
        into the dataset's cache. drop_last: leave out batches of fewer images. Raises ValueError: a number below 1.
        """
        workers = max(1, workers)
        if batch_size < 1 or mixed < 1:
            raise ValueError("batch_size and mixed must be at least 1")
        self.batch_size, self.mixed, self.drop_last, self.generator = batch_size, mixed, drop_last, generator
        self._streams: list[list[range]] = [[] for _ in range(workers)]
        for group in sorted(dataset.groups, key=len, reverse=True):  # to the worker with the fewest images
            min(self._streams, key=lambda stream: sum(map(len, stream))).append(group)

    def __len__(self) -> int:
        """The number of batches."""
        counts = (sum(map(len, stream)) for stream in self._streams)
        return sum(count // self.batch_size if self.drop_last else -(-count // self.batch_size) for count in counts)

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of an epoch: lists of numbers of images."""
        streams = [self._batches(stream) for stream in self._streams]
        while streams:
            for stream in list(streams):
                batch = next(stream, None)
                if batch is None:
                    streams.remove(stream)
                else:
                    yield batch

    def _batches(self, groups: list[range]) -> Iterator[list[int]]:
        order = [groups[number] for number in self._shuffled(len(groups))]
        batch: list[int] = []
        for first in range(0, len(order), self.mixed):
            images = [image for group in order[first : first + self.mixed] for image in group]
            for number in self._shuffled(len(images)):
                batch.append(images[number])
                if len(batch) == self.batch_size:
                    yield batch
                    batch = []
        if batch and not self.drop_last:
            yield batch

    def _shuffled(self, count: int) -> list[int]:
        return torch.randperm(count, generator=self.generator).tolist()


def _tensor(pixels: np.ndarray) -> torch.Tensor:
    """(H, W) or (H, W, C) -> (C, H, W) of the same type."""
    return torch.from_numpy(np.atleast_3d(pixels)).permute(2, 0, 1).contiguous()
