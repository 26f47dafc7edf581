"""How fast a training loop gets its images: from an archive, and from PNG files.

    python benchmarks/loading.py FOLDER [--first N] [--json RESULT.json]

The first N PNG images by name, all of one size, are packed by the dqcodec command. One process loads them in batches of
64; every item is compared with its file first. A loop also trains a ResNet-18 (He et al. 2015) for images of 32 x 32.
Figures are images per processor second of one thread.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import script
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

from dqcodec.base.threads import set_threads
from dqcodec.bench.machine import machine
from dqcodec.torch import ArchiveDataset, GroupBatchSampler

_BATCH = 64


class Files(Dataset):
    """PNG files as tensors (C, H, W)."""

    def __init__(self, paths: list[Path]):
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        with Image.open(self.paths[index]) as image:
            return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.way(x) + self.shortcut(x))


def resnet() -> nn.Module:
    """ResNet-18 with a first convolution for small images, 11 million weights."""
    widths = (64, 64, 128, 256, 512)
    blocks = [
        block
        for number, (inputs, outputs) in enumerate(zip(widths, widths[1:]))
        for block in (Block(inputs, outputs, 1 + (number > 0)), Block(outputs, outputs, 1))
    ]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *blocks, *head)


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=1000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    set_threads(1)
    paths = sorted(arguments.folder.rglob("*.png"))[: arguments.first]
    with tempfile.TemporaryDirectory() as name:
        result = {"machine": machine()} | measure(paths, Path(name))
    script.publish(result, arguments.json)


def measure(paths: list[Path], work: Path) -> dict:
    """Pack images in the folder `work`, and load them in each way -> the result, for JSON."""
    (work / "in").mkdir()
    for number, path in enumerate(paths):
        shutil.copy(path, work / "in" / f"{number:06d}.png")
    packed, files = work / "set.dqc", Files(sorted((work / "in").iterdir()))
    script.run(*script.DQCODEC, "compress", "-q", "--no-verify", work / "in", "-o", packed)
    dataset = ArchiveDataset(packed)
    if not all(torch.equal(dataset[index], files[index]) for index in range(len(files))):
        raise SystemExit("the archive differs from the files")
    fresh = ArchiveDataset(packed, cache_bytes=0)
    cached = DataLoader(dataset, batch_sampler=GroupBatchSampler(dataset, _BATCH))
    by_group = ArchiveDataset(packed)
    loaders = {
        "PNG files, shuffled": DataLoader(files, _BATCH, shuffle=True),
        "archive, first epoch, in order": DataLoader(fresh, _BATCH),
        "archive, first epoch, shuffled by groups": DataLoader(
            by_group, batch_sampler=GroupBatchSampler(by_group, _BATCH)
        ),
        "archive, later epochs that fit the cache": cached,
    }
    rates = {name: rate(len(files), lambda loader=loader: list(loader)) for name, loader in loaders.items()}
    some = torch.randperm(len(files))[:24].tolist()
    rates["archive, shuffled, one group kept"] = rate(len(some), lambda: [fresh[index] for index in some])
    model = resnet()
    loops = {
        "PNG files, shuffled": rate(len(files), lambda: train(model, loaders["PNG files, shuffled"])),
        "archive, later epochs that fit the cache": rate(len(files), lambda: train(model, cached)),
    }
    return {
        "images": len(files),
        "groups": len(dataset.groups),
        "png_bytes": sum(path.stat().st_size for path in files.paths),
        "archive_bytes": packed.stat().st_size,
        "images_per_processor_second": rates,
        "with_a_resnet18": loops,
    }


def rate(images: int, load: Callable[[], object]) -> float:
    """Images per processor second."""
    start = time.process_time()
    load()
    return round(images / (time.process_time() - start), 1)


def train(model: nn.Module, batches: Iterable[torch.Tensor]) -> None:
    """An epoch; the labels are the brightness of the images."""
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    for images in batches:
        x = images.float() / 255
        labels = (10 * x.mean((1, 2, 3))).long().clamp(0, 9)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), labels).backward()
        optimiser.step()


if __name__ == "__main__":
    main()
