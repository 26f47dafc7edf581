"""Writes golden files: what earlier versions wrote must stay readable, so files that are there are only written anew for a
new version of the format, and models never.

    cd tests && python golden/make.py NAME ...      a name is that of a .dqc file, without the suffix; tiny/NAME for one of cases.py

A model that is shipped has a tiny golden file of its name, tiny/photo-dd6ebe0b for instance, which comes and goes with it.
"""

import io
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pngs
import programs
from dqc import group, stored
from golden import cases
from test_flow_method import image

from dqcodec import png
from dqcodec.exact.autoregressive import changes
from dqcodec.exact.program import load_program
from dqcodec.format.archive import Writer
from dqcodec.format.archive_group import ArchiveGroup, Member, Verbatim, pack_group
from dqcodec.format.container import Group, sample_checksum
from dqcodec.format.head import Entry
from dqcodec.format.layer import Layer, Method
from dqcodec.format.own_model import OwnModel
from dqcodec.methods import classical, mixing, model_mixing, pixel_mixing, table, trained_mixing

HERE = Path(__file__).parent
MODELS = {kind: lambda kind=kind: programs.data(kind) for kind in programs.KINDS} | {
    programs.AUTOREGRESSIVE: lambda: programs.described(programs.AUTOREGRESSIVE, tile=[16, 24]),
}
TINY_MODELS = {  # of tiny files alone
    HERE / "gray.safetensors": lambda: programs.described(programs.AUTOREGRESSIVE, 1, tile=[16, 24]),
    HERE / "least-squares.safetensors": lambda: programs.described(programs.LEAST_SQUARES, tile=[16, 24]),
    HERE / "learning.safetensors": lambda: programs.described(programs.LEARNING, tile=[16, 24]),
    HERE / "learning-gray.safetensors": lambda: programs.described(programs.LEARNING, 1, tile=[40, 24]),
    HERE / "least-squares-gray.safetensors": lambda: programs.described(programs.LEAST_SQUARES, 1, tile=[40, 24]),
}
TINY = {f"tiny/{name}": case for name, case in cases.cases().items() if case.is_written}
NAMES = (
    "image",
    "archive",
    "archive-model",
    "stored",
    "classical",
    "mixing",
    "pixel-mixing",
    "trained-mixing",
    "model-mixing",
    *MODELS,
    *TINY,
)


def main(names: list[str]) -> None:
    for name in names:
        make(name)


def make_tiny(name: str) -> None:
    case, source = TINY[name], HERE / f"{name}.png"
    if case.model in TINY_MODELS and not case.model.exists():
        case.model.write_bytes(TINY_MODELS[case.model]())
    if not source.exists():
        source.write_bytes(case.png())
    (HERE / f"{name}.dqc").write_bytes(cases.encode(case, source.read_bytes()))


def make(name: str) -> None:
    if name in TINY:
        make_tiny(name)
        return
    pixels = image(45, 70)
    text = (png.Chunk(b"tEXt", b"Comment\0golden"),)
    match name:
        case "image":
            (HERE / "image.png").write_bytes(png.write(pngs.plain(pixels, text)))
            return
        case "archive":
            (HERE / "archive.dqc").write_bytes(archived())
            return
        case "archive-model":
            (HERE / "archive-model.dqc").write_bytes(archived_with_model())
            return
        case "stored":
            made = stored(png.write(pngs.plain(pixels, text)))
        case "classical":
            made = group(pixels, Method.CLASSICAL, classical.encode([pixels]).data, before=text)
        case "mixing":
            made = group(pixels, Method.MIXING, mixing.encode([pixels]).data, before=text)
        case "pixel-mixing":
            made = group(pixels, Method.PIXEL_MIXING, pixel_mixing.encode([pixels]).data, before=text)
        case "trained-mixing":
            made = group(pixels, Method.TRAINED_MIXING, trained_mixing.encode([pixels]).data, before=text)
        case "model-mixing":
            program = load_program(HERE / "autoregressive.safetensors")
            made = group(
                pixels, Method.MODEL_MIXING, model_mixing.encode([pixels], program).data, program.id, before=text
            )
        case _:
            path = HERE / f"{name}.safetensors"
            if not path.exists():
                path.write_bytes(MODELS[name]())
            program = load_program(path)
            method = table.rows_of(program)[0].number
            payload = table.encode(method, [pixels], program).data
            made = group(pixels, method, payload, program.id, before=text)
    (HERE / f"{name}.dqc").write_bytes(made.pack())


def members() -> dict[str, bytes]:
    """The files of the archive, by name, in its order."""
    photo, drawing = (HERE / "image.png").read_bytes(), png.write(png.plain(image(9, 8)))
    told = png.write(pngs.plain(image(9, 8), (png.Chunk(b"tEXt", b"Comment\0again"),)))
    unpacked = pngs.chunk(b"IDAT", zlib.compress(bytes(5), 0))
    odd = pngs.SIGNATURE + pngs.header(4, 1, color_type=0) + unpacked + pngs.chunk(b"IEND") + b"more"
    return {
        "a/photo.png": photo,
        "b.png": drawing,
        "b again.png": drawing,
        "b told.png": told,
        "notes.txt": b"text",
        "odd.png": odd,
    }


def archived() -> bytes:
    """An archive of three groups: a set by a model, and one by mixing with an image that repeats another; members that are equal; a
    file kept verbatim; a stored image."""
    photo, drawing, _, told, notes, odd = members().values()
    program = load_program(HERE / "autoregressive.safetensors")
    layer, pixels = Layer(Method.AUTOREGRESSIVE, program.id), png.read(photo).pixels
    by_model = Group(
        (entry_of(photo, layer),),
        (table.rows_of(program)[0].module.encode([pixels], program).data,),
        sample_checksum([pixels]),
    )
    pixels = png.read(drawing).pixels
    again = Entry(png.read(told).skeleton, repeats=1)
    mixed = Group(
        (entry_of(drawing, Layer(Method.MIXING)), again), (mixing.encode([pixels]).data,), sample_checksum([pixels] * 2)
    )
    stamps = {name: (1_000_000_000 * number - 5 * 10**9, 0o600 + number) for number, name in enumerate(members())}
    made = [Member(name, *stamp) for name, stamp in stamps.items()]
    stream = io.BytesIO()
    writer = Writer(stream)
    writer.add(pack_group(ArchiveGroup(tuple(made[:1]), (0,), (by_model,))))
    writer.add(pack_group(ArchiveGroup(tuple(made[1:5]), (0, 0, 1, 2), (mixed, Verbatim(notes)))))
    writer.add(pack_group(ArchiveGroup(tuple(made[5:]), (0,), (stored(odd),))))
    writer.finish()
    return stream.getvalue()


def changed_model() -> OwnModel:
    """The golden autoregressive model with changes of all kinds: bits dropped, steps, numbers of one byte and of two."""
    program, rng = load_program(HERE / "autoregressive.safetensors"), np.random.default_rng(6)
    rows = {}
    for name, layer in program.net.layers.items():
        is_known = name.startswith("net.known.")
        plane = int(name[-1]) if is_known else 0
        head = program.net.out[0].inputs
        drop = (
            rows["net.heads"].drop[plane * head : (plane + 1) * head] if is_known else rng.integers(1, 3, layer.outputs)
        )
        step = np.maximum(0, np.log2(np.abs(layer.weight).max((1, 2, 3)) / 32).astype(np.int64) - drop)
        weights = rng.integers(-2, 3, (layer.outputs, layer.inputs))
        weights[0, 0] = 0 if is_known else -70 >> step[0]
        biases = () if is_known else (np.full(layer.outputs, 3), rng.integers(-9, 10, layer.outputs))
        rows[name] = changes.Rows(drop, step, weights, *biases)
    return OwnModel(program.id, changes.pack(program, rows))


def archived_with_model() -> bytes:
    """An archive of two groups, of which the first needs the model that the archive brings."""
    base = load_program(HERE / "autoregressive.safetensors")
    model = changed_model()
    own = changes.apply(base, model.changes, model.id)
    stream = io.BytesIO()
    writer = Writer(stream, [model])
    for name, program in (("own.png", own), ("base.png", base)):
        source = png.read((HERE / "tiny" / "autoregressive.png").read_bytes())
        layer, pixels = Layer(Method.AUTOREGRESSIVE, program.id), source.pixels
        payload = table.rows_of(program)[0].module.encode([pixels], program).data
        coded = Group((Entry(source.skeleton, rasters=((layer,),)),), (payload,), sample_checksum([pixels]))
        writer.add(pack_group(ArchiveGroup((Member(name),), (0,), (coded,))))
    writer.finish()
    return stream.getvalue()


def entry_of(data: bytes, layer: Layer) -> Entry:
    return Entry(png.read(data).skeleton, rasters=((layer,),))


if __name__ == "__main__":
    if not sys.argv[1:] or set(sys.argv[1:]) - set(NAMES):
        sys.exit(f"name what to write, of: {' '.join(NAMES)}")
    main(sys.argv[1:])
