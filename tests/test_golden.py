"""Files that earlier releases wrote decode to the same pixels and metadata, with the models of then."""

from pathlib import Path

import pytest

from dqcodec import png
from dqcodec.codec import codec
from dqcodec.exact.program import load_program

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.dqc"))
MODELS = {"model-mixing": "autoregressive", "particles": "uniform"}


def test_there_is_a_golden_file_for_every_method_and_every_flows_dequantizer():
    methods = {"stored", "classical", "mixing", "autoregressive", "model-mixing", "particles"}
    assert {path.stem for path in FILES} == methods | {"uniform", "gaussian", "bipartite", "ard", "alternating"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_file_decodes_to_its_image(path):
    def find_program(model_id):
        program = load_program(GOLDEN / f"{MODELS.get(path.stem, path.stem)}.safetensors")
        assert program.id == model_id
        return program

    source = png.read((GOLDEN / "image.png").read_bytes())
    restored = png.read(codec.decompress(path.read_bytes(), find_program)[0])
    assert restored.same(source)
