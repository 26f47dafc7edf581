"""Writes golden files: what older releases wrote must stay readable, so files that are there are only written anew for a
new version of the format.

    cd tests && python golden/make.py NAME ...      a name is that of a .dqc file, without the suffix
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pngs
import programs
from test_flow_method import image

from dqcodec import png
from dqcodec.container import Container, Method, pixel_checksum
from dqcodec.exact.program import load_program
from dqcodec.methods import classical, learned

HERE = Path(__file__).parent
MODELS = {kind: lambda kind=kind: programs.data(kind) for kind in programs.KINDS} | {
    programs.AUTOREGRESSIVE: lambda: programs.described(programs.AUTOREGRESSIVE, tile=[16, 24]),
}
NAMES = ("image", "stored", "classical", *MODELS)


def main(names: list[str]) -> None:
    for name in names:
        make(name)


def make(name: str) -> None:
    pixels = image(45, 70)
    source = png.write(pixels, png.Chunks(before=text_chunk()))
    fields = {"shape": pixels.shape, "checksum": pixel_checksum(pixels), "chunks": png.read(source).chunks}
    match name:
        case "image":
            (HERE / "image.png").write_bytes(source)
            return
        case "stored":
            container = Container(Method.STORED, source)
        case "classical":
            container = Container(Method.CLASSICAL, classical.encode(pixels), **fields)
        case _:
            path = HERE / f"{name}.safetensors"
            path.write_bytes(MODELS[name]())
            program = load_program(path)
            payload, _ = learned.encode(pixels, program)
            container = Container(Method[program.kind.upper()], payload, model_id=program.id, **fields)
    (HERE / f"{name}.dqc").write_bytes(container.pack())


def text_chunk() -> bytes:
    return pngs.chunk(b"tEXt", b"Comment\0golden")


if __name__ == "__main__":
    if not sys.argv[1:] or set(sys.argv[1:]) - set(NAMES):
        sys.exit(f"name what to write, of: {' '.join(NAMES)}")
    main(sys.argv[1:])
