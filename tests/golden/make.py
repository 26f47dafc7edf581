"""Writes golden files: what older releases wrote must stay readable, so files that are there are only written anew for a
new version of the format, and models never.

    cd tests && python golden/make.py NAME ...      a name is that of a .dqc file, without the suffix; tiny/NAME for one of cases.py

A model that is shipped has a tiny golden file of its name, tiny/photo-dd6ebe0b for instance, which comes and goes with it.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import programs
from dqc import group, stored
from golden import cases
from test_flow_method import image

from dqcodec import png
from dqcodec.exact.program import load_program
from dqcodec.format.container import Method
from dqcodec.methods import classical, mixing, model_mixing, table
from dqcodec.methods.payload import Effort

HERE = Path(__file__).parent
MODELS = {kind: lambda kind=kind: programs.data(kind) for kind in programs.KINDS} | {
    programs.AUTOREGRESSIVE: lambda: programs.described(programs.AUTOREGRESSIVE, tile=[16, 24]),
}
GRAY = HERE / "gray.safetensors"  # of tiny files
TINY = {f"tiny/{name}": case for name, case in cases.cases().items()}
NAMES = ("image", "stored", "classical", "mixing", "model-mixing", "particles", *MODELS, *TINY)


def main(names: list[str]) -> None:
    for name in names:
        make(name)


def make_tiny(name: str) -> None:
    case, source = TINY[name], HERE / f"{name}.png"
    if case.model == GRAY and not GRAY.exists():
        GRAY.write_bytes(programs.described(programs.AUTOREGRESSIVE, 1, tile=[16, 24]))
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
            (HERE / "image.png").write_bytes(png.write(png.plain(pixels, text)))
            return
        case "stored":
            made = stored(png.write(png.plain(pixels, text)))
        case "classical":
            made = group(pixels, Method.CLASSICAL, classical.encode([pixels]).data, before=text)
        case "mixing":
            made = group(pixels, Method.MIXING, mixing.encode([pixels]).data, before=text)
        case "model-mixing":
            program = load_program(HERE / "autoregressive.safetensors")
            made = group(pixels, Method.MODEL_MIXING, model_mixing.encode([pixels], program).data, program.id, before=text)
        case "particles":
            program = load_program(HERE / "uniform.safetensors")
            payload = table.own(program).encode([pixels], program, Effort(particles=5))
            made = group(pixels, Method.FLOW, payload.data, program.id, before=text)
        case _:
            path = HERE / f"{name}.safetensors"
            if not path.exists():
                path.write_bytes(MODELS[name]())
            program = load_program(path)
            method = table.own(program)
            made = group(pixels, method.number, method.encode([pixels], program).data, program.id, before=text)
    (HERE / f"{name}.dqc").write_bytes(made.pack())


if __name__ == "__main__":
    if not sys.argv[1:] or set(sys.argv[1:]) - set(NAMES):
        sys.exit(f"name what to write, of: {' '.join(NAMES)}")
    main(sys.argv[1:])
