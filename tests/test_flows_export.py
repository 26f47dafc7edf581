"""Export: files do not depend on the weights' layout in memory, and models without a twin are refused."""

import pytest
import torch
from flows import randomised, symbols

from dqcodec.base.errors import ModelError
from dqcodec.exact.program import load_program
from dqcodec.export.program import export_bytes, has_exact_twin
from dqcodec.flows.autoregressive import Reversed
from dqcodec.flows.dequantizers import FlowDequantizer, UniformDequantizer
from dqcodec.flows.transforms import Rescale
from dqcodec.training import config as configs
from dqcodec.training.build import build

AUTOREGRESSIVE = ("dequantizer.kind=posterior", "density.kind=autoregressive", "density.width=8", "density.head=4")
SMALL = ("data.crop=8", "density.levels=[{subflows=1, width=4, blocks=1}]", "dequantizer.width=4", "data.channels=1")


def _model(*overrides: str):
    torch.manual_seed(0)
    return randomised(build(configs.load(None, SMALL + overrides)), 0.1).float()


def _export(model, tile: int | None = 8) -> bytes:
    torch.manual_seed(1)
    return export_bytes(model, "toy", tile, symbols(4, 1, 8, 8, bits=8).float(), {})


@pytest.mark.parametrize("kind", ["uniform", "gaussian", "bipartite", "ard", "posterior"])
def test_the_same_model_gives_the_same_file_in_any_memory_format(kind):
    model = _model(*(AUTOREGRESSIVE if kind == "posterior" else (f"dequantizer.kind={kind}",)))
    contiguous = _export(model)
    state = torch.get_rng_state()
    assert _export(model.to(memory_format=torch.channels_last)) == contiguous
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "overrides", [("density.kind=diagonal",), ("density.net=dense",), ("data.bits=1", "dequantizer.bins=half_infinite")]
)
def test_a_model_without_an_exact_twin_is_refused(overrides):
    model = _model(*overrides)
    assert not has_exact_twin(model)
    with pytest.raises(ModelError):
        _export(model)


class Other(UniformDequantizer):
    """Noise near the lower end of each bin."""

    def noise(self, x):
        return torch.rand_like(x) ** 2


def _changed(change: str):
    """A model with an exact twin, except for one part."""
    model = _model("dequantizer.kind=ard", "dequantizer.subflows=2")
    chain = model.dequantizer.transforms.transforms
    if change == "dequantizer":
        model.dequantizer = Other()
    elif change == "subclass":
        model.dequantizer.__class__ = type("Mine", (FlowDequantizer,), {})
    elif change == "offset":
        model.density.rescale = Rescale(0.0, 64.0)
    elif change == "unit":
        model.density.rescale = Rescale(128.0, 32.0)
    elif change == "mixed":
        chain[0] = _model("dequantizer.kind=bipartite").dequantizer.transforms.transforms[1]
    elif change == "order":
        chain[1] = Reversed(chain[1])
    return model


@pytest.mark.parametrize("change", ["dequantizer", "subclass", "offset", "unit", "mixed", "order"])
def test_a_model_with_a_part_that_exact_programs_lack_is_refused(change):
    assert has_exact_twin(_changed("nothing"))
    assert not has_exact_twin(_changed(change))
    with pytest.raises(ModelError, match="no exact twin"):
        _export(_changed(change))


@pytest.mark.parametrize("kind", ["uniform", "gaussian", "bipartite", "ard"])
@pytest.mark.parametrize("bits", range(1, 9))
def test_a_flow_has_an_exact_twin_for_any_bits(kind, bits, tmp_path):
    model = _model(f"dequantizer.kind={kind}", f"data.bits={bits}")
    path = tmp_path / "toy.safetensors"
    path.write_bytes(export_bytes(model, "toy", 8, symbols(4, 1, 8, 8, bits=bits).float(), {}))
    assert load_program(path).bits == bits


def test_one_component_whose_weight_cannot_vary_is_exact_too(tmp_path):
    path = tmp_path / "toy.safetensors"
    path.write_bytes(_export(_model(*AUTOREGRESSIVE, "density.mixtures=1"), None))
    assert load_program(path).kind == "autoregressive"


@pytest.mark.parametrize("bits", [1, 8])
def test_an_autoregressive_model_has_an_exact_twin_for_any_bits_and_tile(bits):
    model = _model(*AUTOREGRESSIVE, f"data.bits={bits}")
    assert has_exact_twin(model) and _export(model, 9) != _export(model, None)


def test_a_tile_must_fit_the_levels():
    with pytest.raises(ModelError, match="multiple of 2"):
        _export(_model(), tile=9)
