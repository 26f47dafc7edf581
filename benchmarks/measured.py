"""The codec's tables, from the committed JSON in results/: Markdown, each with its date, machine and command."""

import json
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"

# What measures each result; what has no command here is in no document.
COMMANDS = {
    "photos_test": "dqcodec bench photos_test -o benchmarks/results/photos_test.json -f "
    "--figure docs/figures/frontier.png",
    "kodak": "dqcodec bench kodak -o benchmarks/results/kodak.json -f "
    "--codec dqcodec --codec png --codec jxl-e7 --codec jxl-e9",
    "kodak_luma": "dqcodec bench luma -o benchmarks/results/kodak_luma.json -f "
    "--codec dqcodec --codec png --codec jxl-e7 --codec jxl-e9",
    "thumbnails": "dqcodec bench thumbnails -o benchmarks/results/thumbnails.json -f "
    "--codec dqcodec --codec png --codec webp --codec jxl-e7 --codec jxl-e9",
    "crops": "dqcodec bench crops -o benchmarks/results/crops.json -f --codec dqcodec --codec webp --codec jxl-e9",
    "kinds": "dqcodec bench kinds -o benchmarks/results/kinds.json -f "
    "--codec dqcodec --codec oxipng --codec webp --codec jxl-e9",
    "variants": "dqcodec bench variants -o benchmarks/results/variants.json -f "
    "--codec dqcodec --codec oxipng --codec webp --codec jxl-e9",
    "from_jpeg": "python benchmarks/from_jpeg.py photos_test --images 4 --qualities 75 90 --clipped "
    "--json benchmarks/results/from_jpeg.json",
    "cifar10_bound": "python benchmarks/bound.py cifar/test_00.png --run models/cifar10 --model cifar10 "
    "--json benchmarks/results/cifar10_bound.json",
    "cifar10_large_bound": "python benchmarks/bound.py cifar/test_00.png --run models/cifar10-large --model cifar10-large "
    "--json benchmarks/results/cifar10_large_bound.json",
    "cifar10_ard_bound": "python benchmarks/bound.py cifar/test_00.png --run models/cifar10-ard --model cifar10-ard "
    "--json benchmarks/results/cifar10_ard_bound.json",
    "archives_cifar10": "python benchmarks/archives.py cifar10 --first 200 --json benchmarks/results/archives_cifar10.json",
    "archives_icons": "python benchmarks/archives.py icons --first 200 --json benchmarks/results/archives_icons.json",
    "learning_aerial": "python benchmarks/learning.py aerial --learn 10m -m photo --json benchmarks/results/learning_aerial.json",
    "lessons": "python benchmarks/lessons.py photos_test -m photo -m gray -m photo-large --json benchmarks/results/lessons.json",
    "learning_photos_test": "python benchmarks/learning.py photos_test --learn 10m -m photo "
    "--json benchmarks/results/learning_photos_test.json",
    "learning_cifar20k": "python benchmarks/learning.py cifar20k --learn 10m -m photo "
    "--json benchmarks/results/learning_cifar20k.json",
    "trees": "python benchmarks/trees.py pngsuite --made 3000 --json benchmarks/results/trees.json",
    "trees_icons": "python benchmarks/trees.py icons --json benchmarks/results/trees_icons.json",
    "trees_exact": "python benchmarks/trees.py --made 3000 --exact --json benchmarks/results/trees_exact.json",
    "exactness": "python benchmarks/exactness.py kodak/kodim05.png --json benchmarks/results/exactness.json",
    "regions": "python benchmarks/regions.py camera_free --json benchmarks/results/regions.json",
    "growth": "python benchmarks/growth.py wikimedia debian_wallpapers --megapixels 1 8 50 --images 100 1000 10000 "
    "--json benchmarks/results/growth.json",
    "loading": "python benchmarks/loading.py cifar10 --first 1000 --json benchmarks/results/loading.json",
    "install": "python benchmarks/install.py --json benchmarks/results/install.json",
    "engines": "PYTHONPATH=CRAYSTACK python benchmarks/engines.py cifar/test_00.png "
    "--json benchmarks/results/engines.json",
}

_WAITED = 0.9  # as dqcodec.bench.report has it: a codec that got less of the clock's time had to wait
_TREES = {  # result, tree -> its name here
    ("trees", "pngsuite"): "PngSuite, animations, odd files",
    ("trees_icons", "icons"): "icons, emoji, tiles",
    ("trees", "made"): "made: all kinds in nested folders, three of them broken",
    ("trees_exact", "made"): "the same with `--exact`, byte for byte",
}


def read(name: str) -> dict:
    """A committed result."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table. The first column is text, the others are numbers."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def provenance(*names: str) -> str:
    """When, on which machine and by which commands results were measured."""
    lines = []
    for name in names:
        machine = (result := read(name))["machine"]
        threads = result.get("options", {}).get("threads")
        how = "" if threads is None else f", {'one thread' if threads == 1 else f'{threads} threads'}"
        lines.append(
            f"{machine['date'][:10]}, {machine['processor']}, {machine['cores']} cores{how}: `{COMMANDS[name]}`"
        )
    return "\n\n".join(lines)


def photographs() -> str:
    """The README's table: photos_test."""
    found = totals("photos_test")
    rows = [
        [
            f"**{total['title']}**" if codec.startswith("dqcodec") else total["title"],
            count(total["bytes"]), f"{total['bpd']:.3f}", _beside(total, found["jxl-e9"]), *speeds(total),
        ]
        for codec, total in sorted(found.items(), key=lambda item: item[1]["bytes"])
        if codec.startswith("dqcodec") or codec in ("jxl-e9", "webp", "png")
    ]  # fmt: skip
    return table(["", "bytes", "bpd", "to JPEG XL -e 9", "encode, MP/s", "decode, MP/s"], rows)


def speed() -> str:
    """The README's sentence on when not to use the codec."""
    found, processor = totals("photos_test"), read("photos_test")["machine"]["processor"]
    ours, theirs = (found[codec]["decode_mp_s"] for codec in ("dqcodec", "jxl-e9"))
    return (
        f"Decoding runs the same network as encoding: dqcodec decodes {ours:.2f} megapixels a second on one core of an\n"
        f"{processor}, JPEG XL {theirs:.1f}: **{round(theirs / ours)} times slower**."
    )


def size() -> str:
    """The README's sentence on how much smaller files are."""
    ours, theirs = (totals("photos_test")[codec] for codec in ("dqcodec", "jxl-e9"))
    smaller = sum(a < b for a, b in zip(*(by_image("photos_test", codec) for codec in ("dqcodec", "jxl-e9"))))
    of_all = "each of them" if smaller == ours["images"] else f"{smaller} of them"
    return (
        f"On {ours['images']} photographs that it never saw, its files are **{_percent(ours, theirs)} % smaller** than those of "
        f"JPEG XL at effort 9, smaller for {of_all}."
    )


def bench(name: str) -> str:
    """A table of `dqcodec bench`, the smallest first."""
    rows = sorted(totals(name).values(), key=lambda total: total["bytes"])
    best = next((total for total in rows if total["codec"] == "jxl-e9"), None)
    cells = [
        [
            f"**{total['title']}**" if total["codec"].startswith("dqcodec") else total["title"],
            count(total["bytes"]), f"{total['bpd']:.3f}", _beside(total, best), *speeds(total),
            f"{total['peak_memory_bytes'] / 1e6:.0f}",
        ]
        for total in rows
    ]  # fmt: skip
    header = ["", "bytes", "bpd", "to JPEG XL -e 9", "encode, MP/s", "decode, MP/s", "peak MB"]
    return f"{table(header, cells)}\n\n{provenance(name)}"


_CLOSEST = 8
_KINDS_CODECS = "dqcodec", "webp", "jxl-e9", "oxipng"


def kinds() -> str:
    """PNG files of many kinds; a file's name starts with its kind."""
    of_kinds: dict[str, list[dict[str, dict]]] = {}
    for name, file in _files("kinds").items():
        of_kinds.setdefault(name.split("__")[0].replace("_", " "), []).append(file)
    header = ["", "files", "dqcodec", "WebP -z 9", "JPEG XL -e 9", "oxipng", "to the best of these"]
    header += ["processor seconds a megapixel"]
    files = list(chain.from_iterable(of_kinds.values()))
    note = (
        f"dqcodec is the smallest on {sum(map(_is_smallest, files))} of {len(files)} files. A dash: the codec cannot hold all "
        "files of the kind."
    )
    rows = [_kind(name, images) for name, images in sorted(of_kinds.items())]
    return f"{table(header, rows)}\n\n{note}\n\n{provenance('kinds')}"


def _kind(name: str, files: Sequence[dict[str, dict]]) -> list[str]:
    """A row of `kinds`. files: codec -> row of the measurement, for each file."""
    sums = {
        codec: sum(each[codec]["bytes"] for each in files)
        for codec in _KINDS_CODECS
        if all(codec in each for each in files)
    }
    peers = {codec: size for codec, size in sums.items() if codec != "dqcodec"}
    megapixels = sum(each["dqcodec"]["width"] * each["dqcodec"]["height"] for each in files) / 1e6
    seconds = [sum(each["dqcodec"][way]["cpu"] for each in files) / megapixels for way in ("encode", "decode")]
    return [
        name,
        str(len(files)),
        *(count(sums[codec]) if codec in sums else "-" for codec in _KINDS_CODECS),
        _relative(sums["dqcodec"], min(peers.values())),
        " / ".join(f"{each:.1f}" for each in seconds),
    ]


def _files(name: str) -> dict[str, dict[str, dict]]:
    """A result's measurements: file name -> codec -> row."""
    files: dict[str, dict[str, dict]] = {}
    for row in filter(lambda row: row.get("bytes"), read(name)["rows"]):
        files.setdefault(Path(row["image"]).name, {})[row["codec"]] = row
    return files


def _best_peer(file: dict[str, dict]) -> int:
    """The bytes of the best of the other codecs."""
    return min(row["bytes"] for codec, row in file.items() if codec != "dqcodec")


def _is_smallest(file: dict[str, dict]) -> bool:
    return file["dqcodec"]["bytes"] <= _best_peer(file)


def variants() -> str:
    """Variants of photographs: all together, and those of which dqcodec gains least."""
    files = {Path(name).stem.replace("_", " "): file for name, file in _files("variants").items()}
    closest = sorted(files, key=lambda name: _best_peer(files[name]) / files[name]["dqcodec"]["bytes"])[:_CLOSEST]
    rows = [_beside_best(f"all {len(files)}", files.values()), *(_beside_best(name, [files[name]]) for name in closest)]
    note = f"dqcodec is the smallest on {sum(map(_is_smallest, files.values()))} of {len(files)} files."
    return f"{table(['', 'dqcodec', 'best of the others', ''], rows)}\n\n{note}\n\n{provenance('variants')}"


def _beside_best(name: str, files: Collection[dict[str, dict]]) -> list[str]:
    """A row of `variants`."""
    ours, best = sum(file["dqcodec"]["bytes"] for file in files), sum(map(_best_peer, files))
    return [name, count(ours), count(best), _relative(ours, best)]


def from_jpeg() -> str:
    """PNGs whose pixels came out of a JPEG decoder."""
    rows = [
        [
            f"quality {row['quality']}, {row['subsampling']}",
            *(count(row[name]) for name in ("jpeg", "with", "without", "jpegxl", "webp")),
            f"{row['taken']} of {row['images']}",
            f"{100 * row['recovered']:.2f} %",
            f"{1e6 * row['compress_seconds'] / row['pixels']:.1f} / {1e6 * row['decompress_seconds'] / row['pixels']:.1f}",
        ]
        for row in read("from_jpeg")["rows"]
    ]
    header = ["", "the JPEG files", "dqcodec", "without the method", "JPEG XL -e 9", "WebP -z 9", "files by the method"]
    header += ["pixels found", "processor seconds a megapixel"]
    return f"{table(header, rows)}\n\n{provenance('from_jpeg')}"


def lessons() -> str:
    """What the layers that learn while coding gain and cost."""
    rows, least = [], {row["model"]: row["bpd"] for row in read("lessons")["rows"] if row["layers"] == 0}
    for row in read("lessons")["rows"]:
        gain = _change(row["bpd"], least[row["model"]]) if row["layers"] else ""
        rows.append([row["model"], str(row["layers"]), f"{row['bpd']:.4f}", gain, f"{row['microseconds']:.1f}"])
    header = ["model", "further layers that learn", "bpd", "change", "microseconds of processor a pixel"]
    return f"{table(header, rows)}\n\n{provenance('lessons')}"


def model_parts(name: str) -> str:
    """The bits of a model's files in addition to its bound."""
    parts = totals(name)["dqcodec"]["model"]
    cost = ", ".join(f"{label} {parts[key]:.4f}" for key, label in (
        ("initial", "initial bits"), ("grids", "grids and tables"), ("container", "the container"), ("metadata", "metadata"),
    ))  # fmt: skip
    return (
        f"A model codes {parts['images']} of the {totals(name)['dqcodec']['images']} images, at {parts['bpd']:.4f} bpd: its own "
        f"bound is {parts['limit']:.4f}; {cost}."
    )


def bounds() -> str:
    """Coded bytes against the float model's vi bound."""
    names = ("cifar10_bound", "cifar10_large_bound", "cifar10_ard_bound")
    header = ["bpd", "`cifar10`, autoregressive", "`cifar10-large`, autoregressive", "`cifar10-ard`, ARD and flow"]
    results = [read(name) for name in names]
    parts = [result["gap_parts_bpd"] for result in results]
    rows = [
        ["vi bound of the float model", *(f"{result['float_vi_bpd']:.3f}" for result in results)],
        ["coded, the whole file", *(f"**{result['coded_bpd']:.3f}**" for result in results)],
        *([f"of the gap: {part}", *(f"{each[part]:.4f}" for each in parts)] for part in parts[0]),
    ]
    return f"{table(header, rows)}\n\n{provenance(*names)}"


def archives() -> str:
    """Archives of small images, and other codecs with one file for each image."""
    names = ("archives_cifar10", "archives_icons")
    rows = []
    for name, label in zip(names, ("CIFAR-10's first test images", "icons, the first by name")):
        result = read(name)
        peers = [count(result["peers"][peer]) for peer in ("JPEG XL -d 0 -e 9", "WebP lossless -z 9", "PNG as given")]
        overhead = f"{result['overhead_bytes_per_image']:.1f}"
        rows.append([
            label, count(result["images"]), f"**{count(result['bytes'])}**", count(result["parts"]["code"]), overhead, *peers,
        ])  # fmt: skip
    header = [
        "", "images", "dqcodec, bytes", "of which code", "the rest, bytes an image", "JPEG XL -e 9", "WebP -z 9", "PNG",
    ]  # fmt: skip
    return f"{table(header, rows)}\n\n{provenance(*names)}"


_LEARNED = {  # result -> its set here
    "learning_aerial": "18 aerial photographs of one flight",
    "learning_photos_test": "photos_test, 23 photographs of buildings",
    "learning_cifar20k": "20 000 images of CIFAR-10",
}


def learning() -> str:
    """Archives that learn from their own images."""
    rows = []
    for name, label in _LEARNED.items():
        (each,) = read(name)["sets"]
        change = each["bytes"] / each["bytes_without"] - 1
        rows.append([
            f"{label}, from `{each['base']}`", f"{each['pixels'] / 1e6:.1f}", f"{each['learn_seconds'] / 60:.1f}",
            f"{each['learn_processor_seconds'] / 60:.1f}", count(each["bytes_without"]), f"**{count(each['bytes'])}**",
            count(each["model_bytes"]) if change < 0 else "-", f"{100 * change:+.1f} %".replace("-", "−"),
        ])  # fmt: skip
    header = ["", "megapixels", "minutes", "of a core", "without, bytes", "with", "of which the model", "change"]
    return f"{table(header, rows)}\n\n{provenance(*_LEARNED)}"


def trees() -> str:
    """Trees that the command compressed and restored."""
    rows = []
    for (name, tree), label in _TREES.items():
        found = next(each for each in read(name)["trees"] if each["tree"] == tree)
        rows.append([
            label, count(found["files"]), count(found["came_back"]), count(len(found["differ"])),
            count(len(found["refused"])), count(len(found["refused_but_valid"])),
        ])  # fmt: skip
    header = ["", "files", "came back", "differ", "refused", "of these valid PNGs"]
    return f"{table(header, rows)}\n\n{provenance(*dict.fromkeys(name for name, _ in _TREES))}"


def exactness() -> str:
    """Files by different instruction sets."""
    answers = {True: "yes", False: "**no**"}
    rows = [
        [each["setting"], answers[each["decodes the first file"]], answers[each["same bytes"]], f"`{each['sha256']}`"]
        for each in read("exactness")["settings"]
    ]
    return f"{table(['', 'decodes the file', 'makes the same file', 'its SHA-256 starts'], rows)}\n\n{provenance('exactness')}"


def regions() -> str:
    """Regions of a large image beside the whole."""
    result = read("regions")
    rows = []
    for row in result["rows"]:
        seconds = sorted(row["processor_seconds"])
        median = seconds[len(seconds) // 2]
        rows.append([row["region"].replace("x", " x "), f"{seconds[0]:.1f}", f"{median:.1f}", f"{seconds[-1]:.1f}"])
    header = [
        f"{result['size'].replace('x', ' x ')} pixels, {result['method']}",
        "least",
        "median",
        "most, processor seconds",
    ]
    return f"{table(header, rows)}\n\n{provenance('regions')}"


def growth() -> str:
    """Seconds and memory as images and archives grow."""
    result = read("growth")
    images = [
        [
            f"{row['megapixels']} megapixel{'s'[: row['megapixels'] - 1]}",
            *_growth(row, "processors 1", "processors 2"),
            "-",
        ]
        for row in result["images"]
    ]
    archives = [
        [f"{count(row['images'])} images", *_growth(row, "-j 1", "-j 2"), _seconds(row["cluster"])]
        for row in result["archives"]
    ]
    header = ["", "one processor, s", "two, s", "ratio", "two, peak MB", "cluster of two, s"]
    note = (
        "Each cell: seconds to compress (with the check) / seconds to decompress. The cluster is one of Dask on the same two "
        f"processors. Two processes of this machine multiplied {result['two_processes']:.2f} times as much as one."
    )
    return f"{table(header, images + archives)}\n\n{note}\n\n{provenance('growth')}"


def _growth(row: dict, one: str, two: str) -> list[str]:
    ratios = [row[one][f"{way}_seconds"] / row[two][f"{way}_seconds"] for way in ("compress", "decompress")]
    megabytes = (row[two][f"{way}_megabytes"] for way in ("compress", "decompress"))
    return [
        _seconds(row[one]),
        _seconds(row[two]),
        " / ".join(f"{ratio:.2f}" for ratio in ratios),
        " / ".join(map(count, megabytes)),
    ]


def _seconds(row: dict) -> str:
    return f"{row['compress_seconds']:.1f} / {row['decompress_seconds']:.1f}"


def loading() -> str:
    """Images per processor second in a training loop."""
    result = read("loading")
    loops = result["with_a_resnet18"]
    rows = [
        [name, f"{value:,.0f}".replace(",", " "), f"{loops[name]:.1f}" if name in loops else "-"]
        for name, value in result["images_per_processor_second"].items()
    ]
    header = ["images a processor second", "loading", "loading and a step of ResNet-18"]
    sizes = (
        f"{count(result['images'])} images in {result['groups']} groups: the archive has {count(result['archive_bytes'])} "
        f"bytes, the PNG files have {count(result['png_bytes'])}."
    )
    return f"{table(header, rows)}\n\n{sizes}\n\n{provenance('loading')}"


def install() -> str:
    """The wheel, what it brings along, and its first use."""
    result = read("install")
    rows = [["the wheel", f"{result['wheel_bytes'] / 1e6:.1f}"]]
    rows.append(["installed, with dependencies", f"{result['installed_bytes'] / 1e6:.0f}"])
    rows += [[f"of which {name}", f"{size / 1e6:.0f}"] for name, size in result["largest_bytes"].items()]
    taken = ", ".join(f"{command} {seconds:.0f}" for command, seconds in result["processor_seconds"].items())
    note = f"An image of 96 x 64 takes, in processor seconds with compiling: {taken}."
    return f"{table(['', 'megabytes'], rows)}\n\n{note}\n\n{provenance('install')}"


def engines() -> str:
    """The stack of .dqc files and craystack messages."""
    rows = [
        [
            engine,
            f"{max(0.0, each['overhead_bits_a_symbol']):.2g}",
            f"{each['push_m_symbols_s']:.3g}",
            f"{each['pop_m_symbols_s']:.3g}",
        ]
        for engine, each in read("engines")["symbols"].items()
    ]
    header = ["", "bits beyond the law, a symbol", "push, M symbols/s", "pop, M symbols/s"]
    return f"{table(header, rows)}\n\n{provenance('engines')}"


def totals(name: str) -> dict[str, dict]:
    """Codec -> its totals in a result of `dqcodec bench`. is_busy: some codec of the run waited for other processes."""
    found = read(name)["totals"]
    is_busy = any(total["cpu_seconds"] < _WAITED * _clock(total) for total in found)
    return {total["codec"]: total | {"is_busy": is_busy} for total in found}


def _clock(total: dict) -> float:
    return (total["encode_seconds"] or 0) + total["decode_seconds"]


def by_image(name: str, codec: str) -> list[int]:
    """Bytes of each image."""
    return [row["bytes"] for row in read(name)["rows"] if row["codec"] == codec]


def speeds(total: dict) -> list[str]:
    """Encoding and decoding, MP/s; none of a run on a busy machine."""
    rates = (total["encode_mp_s"], total["decode_mp_s"])
    return [
        "-" if rate is None or total["is_busy"] else f"{rate:.0f}" if rate >= 100 else f"{rate:.2g}" for rate in rates
    ]


def count(number: int) -> str:
    """12 345 678, in thousands."""
    return f"{number:,}".replace(",", " ")


def _beside(total: dict, other: dict | None) -> str:
    if other is None or total is other:
        return "-" if other is None else "0"
    return _relative(total["bytes"], other["bytes"])


def _relative(bytes: int, other: int) -> str:
    change = round(100 * (bytes / other - 1), 1) + 0.0  # no -0.0
    return f"{change:+.1f} %".replace("-", "−")


def _change(now: float, before: float) -> str:
    return f"{100 * (now / before - 1):+.2f} %".replace("-", "−")


def _percent(total: dict, other: dict) -> str:
    return f"{100 * (1 - total['bytes'] / other['bytes']):.1f}"


TABLES: dict[str, Callable[[], str]] = {
    "size": size,
    "kinds": kinds,
    "variants": variants,
    "from-jpeg": from_jpeg,
    "lessons": lessons,
    "speed": speed,
    "photographs": photographs,
    "photos-test": lambda: f"{bench('photos_test')}\n\n{model_parts('photos_test')}",
    "kodak": lambda: f"{bench('kodak')}\n\n{model_parts('kodak')}",
    "kodak-luma": lambda: bench("kodak_luma"),
    "thumbnails": lambda: bench("thumbnails"),
    "crops": lambda: bench("crops"),
    "cifar10-bounds": bounds,
    "archives": archives,
    "learning": learning,
    "trees": trees,
    "exactness": exactness,
    "regions": regions,
    "growth": growth,
    "loading": loading,
    "install": install,
    "engines": engines,
}
