"""Packages are the architecture: imports between them point one way, and frozen numbers do not change."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dqcodec
from dqcodec.frozen import (
    ans,
    autoregressive,
    classical,
    experts,
    flow,
    interlaced,
    jpeg,
    mixing,
    networks,
    pixel_mixing,
    trained_mixing,
)

ROOT = Path(dqcodec.__file__).parent
# What each package may import; "" is dqcodec/__init__.py itself, whose version some name.
MAY_IMPORT = {
    "frozen": set(),
    "base": set(),
    "png": {"base"},
    "ans": {"base", "frozen"},
    "format": {"base", "frozen", "png"},
    "context": {"base", "frozen"},
    "exact": {"ans", "base", "context", "frozen"},
    "flows": {"context", "frozen"},
    "export": {"base", "exact", "flows", "frozen"},
    "methods": {"ans", "base", "exact", "format", "frozen"},
    "codec": {"ans", "base", "exact", "format", "frozen", "methods", "png"},
    "arrays": {"base", "codec", "format", "png"},
    "page": {"base", "codec", "exact", "format", "methods", "png"},
    "training": {"ans", "base", "exact", "export", "flows"},
    "bench": {"", "base", "codec", "exact", "format", "png"},
    "command": {"", "base", "bench", "codec", "exact", "format", "page", "png", "training"},
}
HEAVY = {"torch", "jaxtyping", "pydantic"}
MAY_IMPORT_TORCH = {"flows", "export", "training"}
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, by any import in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def of_package(package: str) -> set[str]:
    return {name for path in (ROOT / package).rglob("*.py") for name in imported(path)}


def test_the_table_of_imports_names_every_package():
    assert PACKAGES == sorted(MAY_IMPORT)
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py", "torch.py"}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_the_table_allows(package):
    parts = [name.split(".") for name in of_package(package) if name.split(".")[0] == "dqcodec"]
    used = {part[1] if part[1] in PACKAGES else "" for part in parts}
    assert used <= MAY_IMPORT[package] | {package}


def test_imports_between_packages_have_no_cycle():
    """The packages have an order in which each imports only earlier ones."""
    left, done = dict(MAY_IMPORT), {""}
    while left:
        ready = {package for package, others in left.items() if others <= done}
        assert ready, f"a cycle in {sorted(left)}"
        done |= ready
        left = {package: others for package, others in left.items() if package not in ready}


def test_imports_within_exact_point_one_way():
    """Mixing imports the autoregressive program. No other package of exact/ imports another."""
    for house, others in {
        "flow": ("autoregressive", "mixing"),
        "autoregressive": ("flow", "mixing"),
        "mixing": ("flow",),
        "jpeg": ("flow", "autoregressive", "mixing"),
    }.items():
        used = of_package(f"exact/{house}")
        assert not [name for name in used for other in others if name.startswith(f"dqcodec.exact.{other}.")]


@pytest.mark.parametrize("package", PACKAGES)
def test_only_training_packages_import_torch(package):
    used = {name.split(".")[0] for name in of_package(package)} & HEAVY
    assert not used or package in MAY_IMPORT_TORCH


# --- what is frozen

NUMBERS = {
    ans: {"LOG2_BITS": 24, "EXP2_BITS": 30, "UNIFORM_BITS": 23, "SPARE_BITS": 11},
    networks: {"LEAK": 0.125},
    classical: {
        "BLOCK": 2048, "FRAMING_BYTES": 25, "TO_WEBP": {1: [0, 0, 0], 2: [0, 0, 0, 1], 3: [0, 1, 2], 4: [0, 1, 2, 3]},
        "FROM_WEBP": {1: [0], 2: [0, 3], 3: [0, 1, 2], 4: [0, 1, 2, 3]},
    },
    flow: {
        "INPUT_BITS": 8, "INPUT_RANGE": 8, "INPUT_BOUND": 2048, "LOG_SCALE_BITS": 6, "LOG_SCALE_BOUND": 1024,
        "LOCATION_BOUND": 2**30, "SCALE_BITS": 10, "R": 1024, "MAX_SCALE": 2**18, "SHEAR_BITS": 14, "MAX_LATENT": 2**38,
        "PRECISION": 20, "MIN_CHUNK": 1024, "CHUNKS": 4, "ESCAPE_WORDS": 3, "WORD_BITS": 16, "MAX_PARTICLES": 64,
        "CHOICE_BITS": 22, "MAX_BATCH_DIMS": 393216, "OWN_LOAN": 65, "OWN_SEED": 8, "MAX_GROWTH": 12,
        "AROUND": ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)),
    },
    interlaced: {
        "PLACES": ((1, 1), (0, 1), (1, 0)),
        "NEIGHBOURS": (
            (
                (-1, -1), (-1, 1), (1, -1), (1, 1), (-1, -3), (-1, 3), (1, -3), (1, 3),
                (-3, -1), (-3, 1), (3, -1), (3, 1), (-3, -3), (-3, 3), (3, -3), (3, 3),
            ),
            (
                (0, -1), (0, 1), (-1, 0), (1, 0), (-1, -2), (-1, 2), (1, -2), (1, 2),
                (-2, -1), (-2, 1), (2, -1), (2, 1), (0, -3), (0, 3), (-3, 0), (3, 0),
            ),
            (
                (0, -1), (0, 1), (-1, 0), (1, 0), (-1, -1), (-1, 1), (1, -1), (1, 1),
                (-1, -2), (-1, 2), (1, -2), (1, 2), (-2, -1), (-2, 1), (2, -1), (2, 1),
            ),
        ),
        "MEAN_NEIGHBOURS": 4, "SPREAD_WEIGHTS": (2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1), "REACH": 3,
        "CELL_BITS": 4, "CELL_TOTAL_BITS": 16,
    },
    autoregressive: {
        "NEIGHBOURS": (
            (0, -1), (1, 0), (1, -1), (1, 1), (0, -2), (2, 0), (0, -3), (1, -3), (1, -2), (1, 2), (2, -2), (2, -1), (2, 1),
            (2, 2), (3, -1), (3, 0), (3, 1),
        ),
        "MOMENT_WEIGHTS": (2, 2, 1, 1, 1, 1), "REACH": 3,
        "FEATURE_PLACES": ((0, -1), (0, -2), (1, -1), (1, 0), (1, 1), (2, 0)),
        "GRID": 32, "STANDARD_BOUND": 8, "INPUT_BOUND": 256, "SPREAD_FLOOR": 32, "OWN_REGRESSORS": 5, "OTHER_REGRESSORS": 2,
        "DECAY": 27 / 32, "PERSISTENCE": 3 / 4, "TAPS": (9 / 16, 21 / 64, 7 / 16), "RIDGE": 1 / 4, "LEAST_PIVOT": 1 / 8,
        "PREDICTION_BITS": 6, "ERROR_FLOOR": 128, "PREDICTED": 4, "SLOPE": 3, "FRONT": 512, "LEAST_CHUNK": 2,
        "BITS_FOR_ONE": 128, "SHALLOW_CHUNK": 32, "MAX_STACK_PIXELS": 2**20, "MAX_LOGIT": 2**20, "MAX_LOG_SCALE": 2**14,
        "TOTAL_BITS": 19, "TOTAL": 2**19, "POSITION_BITS": 6, "MEAN_GRID": 256, "MEAN_BOUND": 4096,
        "LEAST_MEAN": -20480, "LARGEST_MEAN": 36864, "LOGIT_GRID": 32, "LOGIT_RANGE": 512, "WEIGHT_BITS": 14,
        "LOG2_SCALE_GRID": 32, "LOG2_SCALE_LOW": -128, "LOG2_SCALE_HIGH": 224, "SIGMOID_CELLS": 8192, "SIGMOID_GRID": 256,
        "INVERSE_SCALE_BITS": 11, "GRADIENT_GRID": 1024, "GRADIENT_BOUND": 65536, "MOMENTUM": 0.9,
        "SECOND_MOMENTUM": 0.99, "EPSILON": 1.0, "EXACT": 2.0**24, "NET_GRADIENT_BOUND": 63, "LEAST_BATCH": 256,
    },
    mixing: {
        "ORDERS": {1: [0], 2: [1, 0], 3: [1, 0, 2], 4: [3, 1, 0, 2]}, "CONTEXTS": 18, "INPUTS": 37,
        "MAX_SLOT_BITS": 16, "LIMIT": 2815, "MIN_PROBABILITY": 16, "MIN_USES": 6, "MAX_USES": 240, "WEIGHT": 6553,
    },
    experts: {
        "MARGIN": 4, "UP": 3, "DOWN": 1, "OWN_FIRST": 12, "OWN_WIDE": 24, "OWN_LATER": 8, "NEAREST": 4, "REFIT": 8,
        "RIDGE": 1 / 16, "LEAST_PIVOT": 1 / 1024, "PREDICTIONS": 8, "LAWS": 8, "GRID": 32, "RANGE": 64, "LEAST_SCALE": 1 / 32, "SHARP_INVERSE": 4.0,
        "DEPTH": 5, "NODES": 64, "STEPS": 16, "SHARP_STEPS": 8, "HISTOGRAMS": 5, "DIRECT": 2, "INPUTS": 16, "CONTEXTS": 2048, "DIRECT_BITS": 16,
        "SETS": 3, "LAW_WEIGHT": 7168, "OTHER_WEIGHT": 3277, "MIN_PROBABILITY": 16, "HISTOGRAM_USES": 250,
        "DIRECT_USES": 60, "CELLS": 32, "MAX_WIDTH": 32768, "MAX_SAMPLE_BYTES": 110, "MAX_SAMPLES_A_BYTE": 23000,
    },
    jpeg: {
        "MAX_STEP": 255, "FIX_0_298": 2446, "FIX_0_390": 3196, "FIX_0_541": 4433, "FIX_0_765": 6270, "FIX_0_899": 7373,
        "FIX_1_175": 9633, "FIX_1_501": 12299, "FIX_1_847": 15137, "FIX_1_961": 16069, "FIX_2_053": 16819, "FIX_2_562": 20995,
        "FIX_3_072": 25172, "CONSTANT_BITS": 13, "PASS_BITS": 2, "RED": 91881, "BLUE": 116130, "GREEN_BY_RED": 46802,
        "GREEN_BY_BLUE": 22554, "CONTEXTS": 16, "INPUTS": 17, "SETS": 3, "FIRST_ROWS": (0, 600, 1112), "ROWS": 1624,
        "FIRST_WEIGHT": 19660, "FIRST_FINAL_WEIGHT": 21845, "RATE": 12, "FINAL_RATE": 2, "MAX_TABLE_BITS": 18,
        "STAGE_ROWS": 600, "MIN_PROBABILITY": 32, "MAX_BLOCKS_A_BYTE": 1623, "MAX_EXPONENT": 13, "MAX_NUMBER": 4095,
        "EDGE": 1024, "INNER": 1448,
    },
    pixel_mixing: {
        "MARGIN": 6, "DEFAULT_PERIODS": ((0, 3), (3, 0)), "STAGE_CELLS": 32, "STAGE_STEP": 176, "STAGE_RATE": 5,
        "MAX_COUNT": 255, "CONTEXTS": 22, "INPUTS": 48, "SETS": 4, "FIRST_ROWS": (0, 96, 280, 568), "ROWS": 824,
        "MAX_SLOT_BITS": 18, "MAX_STAGE_BITS": 14, "FIRST_WEIGHT": 4369, "FIRST_FINAL_WEIGHT": 16384, "FINAL_RATE": 2,
        "CANVAS_TRUST": 256, "CANVAS_ROW": 11, "HIT_CONTEXTS": 8, "HIT_INPUTS": 16, "HIT_SETS": 3, "HIT_ROWS": 576, "FIRST_HIT_ROWS": (0, 64, 320),
        "FIRST_HIT_WEIGHT": 13107, "HIT_RATE": 20, "MAX_HIT_BITS": 20, "LEAST_HIT": 63500, "LONGEST": 31, "LEAST_MATCH": 8,
    },
    trained_mixing: {
        "TABLE_SHA256": "9f87d78f05bb05a60075962c128120be89c769d717c81ed30563ac3f05c55174",
        "LAWS": 8, "LEVELS": (0, 2, 6, 15, 40), "LAW_ROWS": 432, "FIRST_LAW": 47, "INPUTS": 64, "SETS": 5, "FIRST_LAW_ROW": 824,
        "ROWS": 1256, "SLOPE": 355, "LEAST_ERROR": 2048, "MAX_USES": 60, "LEAST_SHARE": 256, "USES": 20, "DONE": 500,
    },
}  # fmt: skip
TABLES = {
    "OWN": "afd8be617326c70b",
    "OTHER": "877a9a4e7a6d84dd",
    "DECAYS": "047f269ad3dbfa78",
    "PERSISTENCES": "704fb2a1036f5559",
    "DISTRIBUTION": "973a92c1c33d7258",
    "CANDIDATES": "a4aad793258a7471",
    "QUANTILES": "ee7c443e116090d1",
    "SQUASH": "ba503793dd6b11a1",
    "STRETCH": "67d384228b6ae22c",
    "FINE_STRETCH": "06db9f29de0558d8",
    "STATES": "045a99bd50c1a58f",
    "RATES": "082482d75ad867ab",
    "STAGE": "ed78c6476a150c0a",
    "NEXT": "651f5a24e634bc60",
    "STATE_RATES": "5fc2c849154ce192",
    "ZIGZAG": "82f612368322973d",
    "LUMA": "9e5ba736049c75df",
    "CHROMA": "f1d967d66ab4181b",
}  # the first 8 bytes of the SHA-256 of each, int64 or float64 little-endian


@pytest.mark.parametrize("module", NUMBERS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_frozen_numbers_do_not_change(module):
    """A change of one breaks all files. A new method, with a new number in the format, does not."""
    constants = {
        name: value for name, value in vars(module).items() if name.isupper() and not isinstance(value, np.ndarray)
    }
    assert constants == NUMBERS[module]


def test_frozen_tables_do_not_change():
    named = (vars(mixing) | vars(pixel_mixing) | vars(experts) | vars(jpeg)).items()
    tables = {
        name: value.astype("<f8" if value.dtype.kind == "f" else "<i8")
        for name, value in named
        if isinstance(value, np.ndarray) and not name.startswith("_")
    }
    digests = {name: hashlib.sha256(value.tobytes()).hexdigest()[:16] for name, value in tables.items()}
    assert digests == TABLES


def test_every_frozen_module_is_compared():
    frozen = {path.stem for path in (ROOT / "frozen").glob("*.py")} - {"__init__"}
    assert frozen == {module.__name__.rpartition(".")[2] for module in NUMBERS}


def test_every_shape_in_an_annotation_parses():
    """jaxtyping parses an axis only when it checks one, so a wrong axis, such as 4C for 4*C, would stay unseen."""
    axes = {
        axis
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", None) in ("Float", "Int", "Num")
        for axis in node.slice.elts[1].value.split()
    }
    assert "4*C" in axes
    for axis in axes - {"...", "_"}:
        ast.parse(axis.lstrip("*#"), mode="eval")
