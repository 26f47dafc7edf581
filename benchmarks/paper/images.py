"""The paper's tables of images, 3 to 5, cell by cell: train with dqcodec.training, then measure the bounds on test images.

    python benchmarks/paper/images.py mnist binarized_mnist_larochelle.npz -o runs --images 100000
    python benchmarks/paper/images.py cifar10 cifar -o runs --minutes 20 --cell 8bit-ard
    python benchmarks/paper/images.py cifar10 cifar -o runs --minutes 20 --cell 5bit-uniform --cell 5bit-uniform-iw4
    python benchmarks/paper/images.py mnist binarized_mnist_larochelle.npz -o runs --images 150000 --cell flow-ard --seed 1

Each cell has a run folder below the output. A cell that was trained for the whole budget is kept; another one continues
where it stopped. To train longer, call it again with a larger budget. Results go to OUTPUT/<table>.json.

The cells of a row differ only in the dequantizer; configs/ holds the settings of the rows. Flows are also exported, and
their integer programs code the test images. Objectives are compared as the paper compares them on CIFAR-10: training of the
vi model continues with each objective, here for a fourth of the budget; if there is no vi model yet, it is trained first, for
the budget. The row `interlaced` of CIFAR-10 goes on from a trained p(v), which has seen the first 48 000 images.

mnist: Larochelle's binarization as packed bits, arrays train, valid, test with 784 bits a row. Its rows are three kinds of
p(v): a Gaussian, a flow of affine couplings, and an interlaced flow, which has mixture couplings and takes images of 32 x 32.
cifar10: the folder that benchmarks/cifar10.py makes, with cifar10.npz and test_*.png; for `interlaced` with --validation 2000.
"""

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from coding import code, rates, symbols
from PIL import Image
from results import Results, json_option

from dqcodec.export.program import has_exact_twin
from dqcodec.flows.densities import CovarianceGaussian
from dqcodec.flows.model import DequantizedModel
from dqcodec.training import config as configs
from dqcodec.training import data
from dqcodec.training.budget import Budget
from dqcodec.training.config import Config
from dqcodec.training.data import Crops, Dataset
from dqcodec.training.evaluate import evaluate
from dqcodec.training.progress import LineProgress
from dqcodec.training.runs import averaged_weights
from dqcodec.training.trainer import Trainer

CONFIGS = Path(__file__).parent / "configs"
DEQUANTIZERS = ("uniform", "gaussian", "bipartite", "ard")

_IW_SAMPLES = 256
_VALID_IMAGES = 2000
_BATCH = 100
_TUNING_PART = 4  # another objective gets a fourth of the budget
_MNIST_SIDE = 28
_ROUNDS = 8  # how often a covariance is fitted to the moments of v
_LAST_DRAWS = 10  # draws of v from each image in the last fit


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    row: the name of its configuration without the table's. objective: the one that continues the training of the row's
    vi model; None for a vi model. seed: of the training; 0 is not part of the name.
    """

    table: str
    row: str
    dequantizer: str
    objective: str | None = None
    seed: int = 0

    @property
    def base(self) -> str:
        """The name of the vi model."""
        return dataclasses.replace(self, objective=None).name

    @property
    def name(self) -> str:
        """Its name in the results and of its run."""
        seed = f"seed{self.seed}" if self.seed else None
        return "-".join(filter(None, (self.row, self.dequantizer, self.objective, seed)))

    @property
    def names(self) -> set[str]:
        """How a user may call it: by its name, or by its row's if it is trained with vi from the start."""
        return {self.name} if self.objective else {self.name, self.row}

    def config(self) -> Config:
        """The configuration of its training."""
        overrides = (f"dequantizer.kind={self.dequantizer}", f"training.seed={self.seed}")
        overrides += OBJECTIVES[self.objective or "vi"]
        overrides += _TUNING if self.objective else ()
        return configs.load(CONFIGS / f"{self.table}_{self.row}.toml", overrides)

    def budget(self, minutes: float | None, images: int | None) -> Budget:
        """The cell's part of the budget that the user gave."""
        if self.objective is None:
            return Budget(minutes, images)
        return Budget(minutes and minutes / _TUNING_PART, images and images // _TUNING_PART)


@dataclass(frozen=True)
class Start:
    """A trained p(v) from which all columns of a row go on; q starts anew.

    run: its folder. minutes: of its training. images: of the published order, how many of the first it may have seen.
    """

    run: Path
    minutes: int
    images: int

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights of p(v)."""
        return {name: weight for name, weight in averaged_weights(self.run).items() if name.startswith("density.")}


STARTS = {("cifar10", "interlaced"): Start(Path(__file__).parents[2] / "models/cifar10-ard", 600, 48_000)}
# a model that is trained already goes on at lower rates
_TUNING = ("training.learning_rate=2e-3", "training.muon_learning_rate=8e-3", "training.warmup_steps=20")
OBJECTIVES = {
    "vi": (),
    "iw4": ("objective.alpha=0.0", "objective.samples=4"),
    "renyi4": ("objective.alpha=-inf", "objective.samples=4"),
}
CELLS = {
    "mnist": [Cell("mnist", row, q) for row in ("covariance", "flow", "interlaced") for q in DEQUANTIZERS]
    + [Cell("mnist", "flow", "uniform", objective) for objective in OBJECTIVES],
    "cifar10": [Cell("cifar10", row, q) for row in ("8bit", "5bit", "interlaced") for q in DEQUANTIZERS]
    + [Cell("cifar10", row, "uniform", objective) for row in ("8bit", "5bit") for objective in OBJECTIVES],
}


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=CELLS)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder that holds the run folders")
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument("--minutes", type=float, help="minutes to train each cell, earlier calls included")
    budget.add_argument("--images", type=int, help="images to train each cell on, earlier calls included")
    parser.add_argument(
        "--cell", action="append", help="only this cell, or this row, e.g. flow-ard or flow (repeatable)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the training (default: 0)")
    parser.add_argument("--test-images", type=int, help="number of test images for vi (default: all)")
    parser.add_argument("--coded-images", type=int, help="number of test images to code (default: those for vi)")
    parser.add_argument("--iw-images", type=int, default=64, help="number of test images for KL")
    json_option(parser, "OUTPUT/<table>.json")
    arguments = parser.parse_args()
    names = [cell.name for cell in CELLS[arguments.table]]
    if unknown := set(arguments.cell or ()) - {name for cell in CELLS[arguments.table] for name in cell.names}:
        parser.error(f"unknown cell {', '.join(unknown)}; the cells are {', '.join(names)}")
    torch.set_num_threads(1)
    results = Results(arguments.json or arguments.output / f"{arguments.table}.json")
    for cell in CELLS[arguments.table]:
        if arguments.cell and cell.names.isdisjoint(arguments.cell):
            continue
        cell = dataclasses.replace(cell, seed=arguments.seed)
        known = results.cells.get(cell.name)
        budget = cell.budget(arguments.minutes, arguments.images)
        if known and budget.fraction(60 * known["minutes"], known["images"]) == 1:
            continue
        splits = READERS[arguments.table](arguments.data, cell.config())
        base, runs = dataclasses.replace(cell, objective=None), arguments.output / cell.table
        if cell.objective and not is_started(base, runs):
            print(f"{cell.name} continues {base.name}, which is not there: training it first", flush=True)
            train(base, splits.images, base.budget(arguments.minutes, arguments.images), runs)
        trainer = train(cell, splits.images, budget, runs)
        found = measure(trainer, splits, arguments.test_images, arguments.iw_images)
        if start := STARTS.get((cell.table, cell.row)):
            found |= {"start": start.run.name, "start_minutes": start.minutes}
        if has_exact_twin(trainer.model):
            found |= coded(trainer.folder.path, splits, arguments.coded_images or arguments.test_images)
        results.add(cell.name, found)
        print(cell.name, results.cells[cell.name], flush=True)


@dataclass(frozen=True)
class Splits:
    """A data set: images for training and validation, and test images.

    border: width of the zeros around each image, pixels. They are coded, too, but no rate counts them as dimensions.
    """

    images: Dataset
    test: Crops
    border: int = 0

    @property
    def share(self) -> float:
        """The images' own part of all pixels."""
        return (1 - 2 * self.border / self.test.crop) ** 2


def read_mnist(path: Path, config: Config) -> Splits:
    """Binary MNIST from Larochelle's file. If crops are larger than images, a border of zeros surrounds each image."""
    arrays, border = np.load(path), (config.data.crop - _MNIST_SIDE) // 2

    def crops(part: str) -> Crops:
        bits = np.unpackbits(arrays[part], axis=1).reshape(-1, _MNIST_SIDE, _MNIST_SIDE, 1)
        images = np.pad(bits * np.uint8(255), ((0, 0), (border, border), (border, border), (0, 0)))
        return Crops(list(images), config.data.crop, config.data.bits)

    return Splits(Dataset(crops("train"), crops("valid")), crops("test"), border)


def read_cifar10(folder: Path, config: Config) -> Splits:
    """CIFAR-10 from the folder of benchmarks/cifar10.py."""
    bits = config.data.bits
    sheets = [np.asarray(Image.open(path)) for path in sorted(folder.glob("test_*.png"))]
    return Splits(data.load(folder / "cifar10.npz", 3, 32, bits), Crops(sheets, 32, bits))


READERS = {"mnist": read_mnist, "cifar10": read_cifar10}


def is_started(cell: Cell, runs: Path) -> bool:
    """Whether the cell has a run."""
    return (runs / cell.name / "checkpoint.pt").exists()


def train(cell: Cell, images: Dataset, budget: Budget, runs: Path) -> Trainer:
    """Train a cell until its budget is spent. An existing run continues.

    Raises:
        SystemExit: Ctrl-C, or the row starts from a model that has seen images for validation.
    """
    folder = runs / cell.name
    trainer = Trainer(cell.config(), images, folder, budget, "cpu")
    if is_started(cell, runs):
        trainer.resume()
    elif cell.objective:
        trainer.start_from(runs / cell.base)
    elif start := STARTS.get((cell.table, cell.row)):
        if len(images.train.images) < start.images:
            raise SystemExit(
                f"{cell.name}: its p(v) was trained on {start.images} images, and may have seen yours for validation"
            )
        trainer.start_with(trainer.model.state_dict() | start.weights())
    else:
        trainer.start()
    rounds = _ROUNDS if isinstance(trainer.model.density, CovarianceGaussian) else 1
    for until in (part / rounds for part in range(1, rounds + 1)):
        if trainer.fraction() >= until:
            continue
        if not trainer.run(LineProgress(), until):
            raise SystemExit("stopped and saved; the same command continues")
        if until < 1:
            refit(trainer.ema.module, images.train, 1)
            trainer.model.density.load_state_dict(trainer.ema.module.density.state_dict())
    return trainer


def measure(trainer: Trainer, splits: Splits, test_images: int | None, iw_images: int) -> dict:
    """The bounds on test images, for the results.

    vi is measured on many images, KL = vi - iw on fewer ones with the same samples for both; all are spread evenly. iw
    on the many images is then vi - KL: KL differs little between images, while the rates differ much. An interlaced flow knows
    P(x): there iw is -log P(x) of all these images, exact, and KL has the noise of vi alone. Errors are standard errors over images.
    """
    model = trainer.ema.module.eval()
    if isinstance(model.density, CovarianceGaussian):
        refit(model, splits.images.train, _LAST_DRAWS)
    valid = evaluate(model, splits.images.valid.tiles(_BATCH, _VALID_IMAGES), 1)
    some = vi = evaluate(model, splits.test.tiles(_BATCH, test_images), 1)
    if vi.mass_bpd is None:
        some = evaluate(model, splits.test.tiles(_BATCH, iw_images), _IW_SAMPLES)
    bounds = {
        "vi_bpd": vi.vi_bpd,
        "vi_error_bpd": vi.vi_error_bpd,
        "iw_bpd": vi.vi_bpd - some.kl_bpd,
        "kl_bpd": some.kl_bpd,
        "kl_error_bpd": some.kl_error_bpd,
        "valid_vi_bpd": valid.vi_bpd,
    }
    return {key: round(rate / splits.share, 7) for key, rate in bounds.items()} | {
        "test_images": vi.crops,
        "iw_images": some.crops,
        "iw_samples": some.samples,
        "valid_images": valid.crops,
        "minutes": round(trainer.seconds / 60, 1),
        "steps": trainer.step,
        "images": trainer.step * trainer.config.training.batch,
        "seed": trainer.config.training.seed,
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def coded(run: Path, splits: Splits, count: int | None) -> dict:
    """Bits per dimension of all test images, or `count` of them, by the integer program, initial bits included."""
    x = symbols(splits.test, count)
    return rates(*code(run, x), round(x.size * splits.share)) | {"coded_images": len(x)}


@torch.no_grad()
def refit(model: DequantizedModel, train: Crops, draws: int) -> None:
    """Fit the best Gaussian for a fixed q, which has the moments of v, from `draws` draws of v for each training image.

    A covariance of D dimensions from N samples costs about D^2 / (4 N) nats. On MNIST with one draw of each image this
    is 0.006 bits per dimension.
    """
    torch.manual_seed(0)
    density, count = model.density, 0
    total, products = 0, 0
    for _ in range(draws):
        for batch in train.tiles(_BATCH):
            x = torch.from_numpy(batch).float()
            v = model.dequantizer.value(x, model.dequantizer.sample(x)[0])
            y = density.rescale(v)[0].flatten(1).double()
            total, products, count = total + y.sum(0), products + y.T @ y, count + len(y)
    density.fit(count, total, products)


if __name__ == "__main__":
    main()
