"""The tables of the paper, ours beside the published values, from the committed JSON in results/."""

import json
from collections.abc import Callable, Sequence

import numpy as np
from published import CHECKERBOARD_IW, CHECKERBOARD_VI, IMAGES, LITERATURE, OBJECTIVES
from results import RESULTS

_SHIPPED = RESULTS.parents[1] / "results"
_SEEDS = range(3)
_PAPER_ROWS = {
    ("mnist", "interlaced"): "flow",
    ("cifar10", "interlaced"): "8bit",
}  # where the paper's couplings are affine
_DIGITS = {"mnist": 3, "cifar10": 2}  # of the paper's values
_CODED = (("really coded", "coded_bpd", 3), ("its initial bits", "initial_bpd", 3))  # label, key, digits
_SPENT = (  # label, key, digits
    ("standard error of KL", "kl_error_bpd", 4),
    ("vi on validation images", "valid_vi_bpd", 3),
    ("images trained on", "images", 0),
    ("minutes", "minutes", 1),
    ("parameters", "parameters", 0),
    ("test images, vi", "test_images", 0),
    ("test images, KL", "iw_images", 0),
)


def cells(table: str) -> dict[str, dict]:
    """The measured cells of a table; empty if there is no result yet."""
    path = RESULTS / f"{table}.json"
    return json.loads(path.read_text())["cells"] if path.exists() else {}


def checkerboard_vi() -> str:
    """vi of all pairs of density and dequantizer."""
    measured = cells("checkerboard")
    rows = [
        [p] + [_seeds(measured, f"{p}-{q}-vi", "vi_bits", value) for q, value in row.items()]
        for p, row in CHECKERBOARD_VI.items()
    ]
    return _markdown(["p(v)", "uniform q", "Gaussian q", "flow q"], rows)


def checkerboard_iw() -> str:
    """iw of the flow density, by objective and dequantizer."""
    measured = cells("checkerboard")
    labels = {"vi": "vi", "iw16": "iw (M = 16)", "renyi2": "Rényi (M = 2)"}
    rows = [
        [labels[objective]] + [_seeds(measured, f"flow-{q}-{objective}", "iw_bits", value) for q, value in row.items()]
        for objective, row in CHECKERBOARD_IW.items()
    ]
    return _markdown(["objective", "uniform q", "Gaussian q", "flow q"], rows)


def checkerboard_renyi() -> str:
    """iw of the flow density trained with more samples of Rényi."""
    measured = cells("checkerboard")
    row = [
        _seeds(measured, f"flow-uniform-{objective}", "iw_bits")
        for objective in ("iw16", "renyi2", "renyi4", "renyi16")
    ]
    return _markdown(["", "iw (M = 16)", "Rényi (M = 2)", "Rényi (M = 4)", "Rényi (M = 16)"], [["-log2 P(x)", *row]])


def objectives(table: str, row: str) -> str:
    """A flow with a uniform q, by objective."""
    measured, decimals = cells(table), _DIGITS[table]
    labels = {"vi": "vi", "iw4": "iw (M = 4)", "renyi4": "Rényi (M = 4)"}
    rows = [
        [
            labels[objective],
            _value(measured.get(name := f"{row}-uniform-{objective}"), "iw_bpd", 3),
            f"{published:.{decimals}f}",
            *(
                _value(measured.get(name), key, digits)
                for key, digits in (("vi_bpd", 3), ("coded_bpd", 3), ("minutes", 1))
            ),
        ]
        for objective, published in OBJECTIVES[table].items()
    ]
    return _markdown(["objective", "-log P(x)", "the paper", "vi", "really coded", "minutes"], rows)


def mnist_coded() -> str:
    """Binary MNIST, coded with particles."""
    measured = cells("coded")
    labels = {"vi": "vi", "iw4": "iw (M = 4)"}
    rows = []
    for name, cell in measured.items():
        objective, particles = name.split("-")
        net = {"net_bpd": cell["coded_bpd"] - cell["initial_bpd"]}
        keys = ((cell, "vi_bpd"), (cell, "iw_bpd"), (cell, "coupled_bpd"), (net, "net_bpd"), (cell, "coded_bpd"))
        values = [_value(values, key, 4) for values, key in keys]
        rows.append([labels[objective], particles, *values[:3], f"**{values[3]}**", values[4]])
    header = [
        "trained with",
        "particles K",
        "vi bound",
        "iw bound, K independent samples",
        "iw bound, K coupled samples",
        "coded, without initial bits",
        "coded, all",
    ]
    return _markdown(header, rows)


def digits() -> str:
    """Digits as 1-bit PNGs, bytes by codec."""
    labels = {
        "dqcodec": "**dqcodec**",
        "mixing": "dqcodec without models: context mixing",
        "jxl-e9": "JPEG XL -e 9",
        "webp": "WebP -z 9",
        "png": "PNG, optimised by Pillow",
    }
    measured = cells("digits")
    rows = []
    for key, label in labels.items() if measured else ():
        parts = [(measured[name]["bytes"][key], measured[name]["dims"]) for name in ("sheet", "archive")]
        rows.append([label] + [f"{size} ({8 * size / dims:.3f} bpd)" for size, dims in parts])
    return _markdown(["bytes", "1000 digits, one PNG", "500 digits, a PNG each"], rows)


def image_row(table: str, row: str) -> str:
    """KL, vi and -log P of a row, ours / the paper's, and the cost of each cell."""
    measured, published, decimals = cells(table), _published(table, row), _DIGITS[table]
    lines = []
    for index, (label, key) in enumerate((("KL(q, p)", "kl_bpd"), ("vi", "vi_bpd"), ("-log P(x)", "iw_bpd"))):
        ours = [_value(measured.get(f"{row}-{q}"), key, 3) for q in published]
        lines.append(
            [label] + [_beside(value, f"{published[q][index]:.{decimals}f}") for value, q in zip(ours, published)]
        )
    names = {q: [f"{row}-{q}"] + [f"{row}-{q}-seed{seed}" for seed in _SEEDS[1:]] for q in published}
    if any(names[q][-1] in measured for q in published):
        means = [_mean(measured, names[q], "vi_bpd", 4) if names[q][-1] in measured else "-" for q in published]
        lines.append(["vi, mean of three seeds", *means])
    lines.append(["vi, gain over uniform"] + [_gain(measured, published, row, q) for q in published])
    for label, key, digits in (*_CODED, *_SPENT):
        if any(key in measured.get(f"{row}-{q}", ()) for q in published):
            lines.append([label] + [_value(measured.get(f"{row}-{q}"), key, digits) for q in published])
    return _markdown(["", "uniform q", "Gaussian q", "bipartite q", "ARD q"], lines)


def _published(table: str, row: str) -> dict[str, tuple[float, float, float]]:
    """The paper's row that a row is compared with."""
    return IMAGES[table][_PAPER_ROWS.get((table, row), row)]


def literature() -> str:
    """8-bit CIFAR-10: the literature as the paper gives it, and our models with what they really code."""
    rows = [
        [method, source, *("-" if value is None else f"{value:.2f}" for value in values), "-"]
        for method, source, values in LITERATURE
    ]
    for label, source, cell in _ours():
        keys = ("kl_bpd", "vi_bpd", "iw_bpd", "coded_bpd")
        rows.append([f"**{label}**", source, *(_value(cell, key, 3) for key in keys)])
    return _markdown(["method", "source", "KL(q, p)", "vi", "-log P(x)", "really coded"], rows)


def _ours() -> list[tuple[str, str, dict[str, float]]]:
    """(label, source, rates) of our models of 8-bit CIFAR-10."""
    shipped = {"cifar10-ard": "flow", "cifar10": "autoregressive", "cifar10-large": "autoregressive"}
    return [
        ("ARD, small flow", "8 bit, ARD q, above", cells("cifar10")["8bit-ard"]),
        *((f"`{name}`, {kind}", "[shipped](#cifar-10-in-files)", _bound(name)) for name, kind in shipped.items()),
    ]


def _bound(name: str) -> dict[str, float]:
    """vi, the coded rate, -log P(x) and so KL(q, p) of a shipped model. Where q is the posterior, vi is -log P(x)."""
    measured = json.loads((_SHIPPED / f"{name.replace('-', '_')}_bound.json").read_text())
    vi = measured["float_vi_bpd"]
    mass = measured.get("float_mass_bpd", vi)
    return {"vi_bpd": vi, "coded_bpd": measured["coded_bpd"], "iw_bpd": mass, "kl_bpd": vi - mass}


def images_vi() -> str:
    """vi of all rows of images."""
    labels = {
        ("mnist", "covariance"): "binary MNIST, covariance",
        ("mnist", "flow"): "binary MNIST, flow",
        ("mnist", "interlaced"): "binary MNIST, interlaced flow",
        ("cifar10", "8bit"): "CIFAR-10, 8 bit, flow",
        ("cifar10", "interlaced"): "CIFAR-10, 8 bit, interlaced flow",
        ("cifar10", "5bit"): "CIFAR-10, 5 bit, flow",
    }
    rows = []
    for (table, row), label in labels.items():
        measured, decimals = cells(table), _DIGITS[table]
        rows.append(
            [label]
            + [
                _beside(_value(measured.get(f"{row}-{q}"), "vi_bpd", decimals), f"{published[1]:.{decimals}f}")
                for q, published in _published(table, row).items()
            ]
        )
    return _markdown(["vi, bpd", "uniform q", "Gaussian q", "bipartite q", "ARD q"], rows)


def provenance(table: str) -> str:
    """When and on what a table was measured, and how long its cells were trained."""
    measured = cells(table).values()
    if not measured:
        return "Not measured yet."
    when, where = (", ".join(sorted({cell[key] for cell in measured})) for key in ("date", "processor"))
    spent = [cell["minutes"] for cell in measured if "minutes" in cell]
    trained = (
        f"; {len(spent)} cells, {min(spent):.1f} to {max(spent):.1f} minutes each, {sum(spent):.0f} in all"
        if spent
        else ""
    )
    return f"{when}, {where}{trained}."


def _gain(measured: dict, published: dict, row: str, q: str) -> str:
    """Part of the uniform dequantizer's vi rate that is saved, ours / the paper's."""
    if not (cell := measured.get(f"{row}-{q}")) or not (base := measured.get(f"{row}-uniform")):
        return "-"
    ours, theirs = 1 - cell["vi_bpd"] / base["vi_bpd"], 1 - published[q][1] / published["uniform"][1]
    return f"**{100 * ours:z.1f} %** / {100 * theirs:.1f} %"


def _seeds(measured: dict, name: str, key: str, published: float | None = None) -> str:
    """`mean ± spread` over the seeds, then the paper's value."""
    text = _mean(measured, [f"{name}-{seed}" for seed in _SEEDS], key)
    return text if published is None or text == "-" else f"{text} / {published:.2f}"


def _mean(measured: dict, names: Sequence[str], key: str, digits: int = 3) -> str:
    """`mean ± spread` of cells, of those that are measured. The spread is the largest distance from the mean."""
    values = [measured[name][key] for name in names if name in measured]
    if not values:
        return "-"
    text = f"**{np.mean(values):.{digits}f}**"
    return text if len(values) == 1 else f"{text} ± {np.abs(np.array(values) - np.mean(values)).max():.{digits}f}"


def _beside(ours: str, published: str) -> str:
    return f"{ours} / {published}" if ours == "-" else f"**{ours}** / {published}"


def _value(cell: dict | None, key: str, digits: int) -> str:
    # a KL by samples may be just below zero: -0.0 + 0.0 is 0.0
    return "-" if cell is None or key not in cell else f"{round(cell[key], digits) + 0.0:.{digits}f}"


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])


TABLES: dict[str, Callable[[], str]] = {
    "checkerboard-vi": checkerboard_vi,
    "checkerboard-iw": checkerboard_iw,
    "checkerboard-renyi": checkerboard_renyi,
    "checkerboard-provenance": lambda: provenance("checkerboard"),
    "mnist-provenance": lambda: provenance("mnist"),
    "cifar10-provenance": lambda: provenance("cifar10"),
    "coded-provenance": lambda: provenance("coded"),
    "digits-provenance": lambda: provenance("digits"),
    "mnist-covariance": lambda: image_row("mnist", "covariance"),
    "mnist-flow": lambda: image_row("mnist", "flow"),
    "mnist-interlaced": lambda: image_row("mnist", "interlaced"),
    "mnist-objectives": lambda: objectives("mnist", "flow"),
    "mnist-coded": mnist_coded,
    "digits": digits,
    "images-vi": images_vi,
    "cifar10-8bit": lambda: image_row("cifar10", "8bit"),
    "cifar10-literature": literature,
    "cifar10-5bit": lambda: image_row("cifar10", "5bit"),
    "cifar10-interlaced": lambda: image_row("cifar10", "interlaced"),
    "cifar10-objectives": lambda: objectives("cifar10", "5bit"),
}
