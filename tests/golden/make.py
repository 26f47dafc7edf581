"""Writes the golden files anew. Only for a new version of the format: what older releases wrote must stay readable.

    cd tests && python golden/make.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pngs
import programs
from test_flow_method import image

from dqcodec import png
from dqcodec.container import Container, Method, pixel_checksum
from dqcodec.methods import classical, flow

HERE = Path(__file__).parent


def main() -> None:
    pixels = image(45, 70)
    source = png.write(pixels, png.Chunks(before=text_chunk()))
    chunks = png.read(source).chunks
    (HERE / "image.png").write_bytes(source)
    fields = {"shape": pixels.shape, "checksum": pixel_checksum(pixels), "chunks": chunks}
    (HERE / "stored.dqc").write_bytes(Container(Method.STORED, source).pack())
    (HERE / "classical.dqc").write_bytes(Container(Method.CLASSICAL, classical.encode(pixels), **fields).pack())
    for kind in programs.KINDS:
        program = programs.program(kind)
        (HERE / f"{kind}.safetensors").write_bytes(programs.data(kind))
        payload, _ = flow.encode(pixels, program)
        (HERE / f"{kind}.dqc").write_bytes(Container(Method.FLOW, payload, model_id=program.id, **fields).pack())


def text_chunk() -> bytes:
    return pngs.chunk(b"tEXt", b"Comment\0golden")


if __name__ == "__main__":
    main()
