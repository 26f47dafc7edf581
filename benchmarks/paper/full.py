"""The cost of training a configuration: parameters, memory, GPU-days. The default has the paper's full size.

    python benchmarks/paper/full.py [--config CONFIG] [--epochs 500] [--teraflops 100]

The number of epochs is a guess; the paper does not give it. The teraflops are those that a GPU reaches in practice.
"""

import argparse
from pathlib import Path

import torch

from dqcodec.flows.model import DequantizedModel
from dqcodec.training import config as configs
from dqcodec.training.build import build
from dqcodec.training.card import multiplications_per_pixel
from dqcodec.training.config import Config

FULL = Path(__file__).parent / "configs" / "full.toml"

_TRAIN_IMAGES = 40000
_BYTES = 4  # of a float32
_COPIES = 5  # weights, gradient, Adam's two moments, average
_SECONDS_PER_DAY = 86400


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=FULL)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--teraflops", type=float, default=100.0)
    arguments = parser.parse_args()
    config = configs.load(arguments.config)
    for key, value in costs(config, arguments.epochs, arguments.teraflops).items():
        print(f"{key}: {value}")


def costs(config: Config, epochs: int, teraflops: float) -> dict[str, str]:
    """Costs with their names, as text."""
    model = build(config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    # forward, and twice as much backward; each multiplication has an addition
    image_flop = 6 * multiplications_per_pixel(model, config) * config.data.crop**2
    days = epochs * _TRAIN_IMAGES * image_flop / (teraflops * 1e12) / _SECONDS_PER_DAY
    return {
        "parameters": f"{parameters / 1e6:.1f} million",
        "memory of the weights": f"{_COPIES * _BYTES * parameters / 1e9:.1f} GB",
        "memory of the activations": f"{config.training.batch * saved_bytes(model, config) / 1e9:.1f} GB in float32",
        "computation": f"{image_flop / 1e9:.0f} GFLOP an image",
        "time": f"{days:.1f} GPU-days for {epochs} epochs of {_TRAIN_IMAGES} images at {teraflops:g} TFLOP/s",
    }


def saved_bytes(model: DequantizedModel, config: Config) -> int:
    """Bytes that autograd stores of one image for the backward pass, without weights."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    seen: dict[int, int] = {}
    kept = []  # keeps the tensors alive, so that no address is used twice

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            seen[storage.data_ptr()] = storage.nbytes()
            kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.bound(torch.zeros(1, config.data.channels, config.data.crop, config.data.crop))
    return sum(seen.values())


if __name__ == "__main__":
    main()
