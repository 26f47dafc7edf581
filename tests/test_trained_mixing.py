"""Trained mixing: soft icons are small, and what was learned stays. test_pixel_mixing.py tests that what was coded comes back."""

import hashlib

import numpy as np
import pngs
import pytest
from fake_learned import Program
from golden.cases import soft
from hypothesis import given
from hypothesis import strategies as st

from dqcodec.base.compiled import compiled
from dqcodec.base.errors import ModelError
from dqcodec.codec import candidates, codec
from dqcodec.exact.mixing import priors, sample_laws
from dqcodec.exact.mixing.bit_mixing import BitMixer
from dqcodec.exact.mixing.priors import TABLE, trained_prior
from dqcodec.exact.mixing.sample_laws import SampleLaws
from dqcodec.format.layer import Method
from dqcodec.methods import pixel_mixing, trained_mixing

law_logit, narrow_laws = map(compiled, (sample_laws.law_logit, sample_laws.narrow_laws))
PROGRAM = Program(kind="autoregressive")


def test_images_are_coded_to_the_golden_bytes():
    """A change here is a new version of the format."""
    pixels = (np.add.outer(np.arange(6) * 7, np.arange(8) * 5)[..., None] * np.arange(1, 4)).astype(np.uint8)
    assert trained_mixing.encode([pixels]).data.hex() == GOLDEN


GOLDEN = "08ff1d4b79901a2deefdaf8967772a1a1901e77efc1fcbe563f63b739fd21c3d827f278d69857d32e143065213b6ca9bfcea8c"


def test_what_was_learned_stays():
    """Whoever learns anew breaks all files: a new method, with a new number in the format, is the way."""
    digest = hashlib.sha256()
    with np.load(TABLE) as table:
        for name in sorted(table.files):
            digest.update(f"{name} {table[name].shape} {table[name].dtype} ".encode() + table[name].tobytes())
    assert digest.hexdigest()[:16] == "b90896bd29de9fc8"
    assert TABLE.stat().st_size < 30_000


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_what_was_learned_is_within_the_bounds_of_what_mixers_learn(channels):
    """Sums of weighted logits fit 64 bits, a step fits 32; counters have probabilities that are possible."""
    prior = trained_prior(channels)
    assert np.abs(prior.weights).max() < 1 << 17 and np.abs(prior.hit_weights).max() < 1 << 17
    assert prior.errors.dtype == np.uint32 and (prior.errors >> 10).max() <= 2040 << 11
    assert all((counters >> 10).max() < 1 << 22 for counters in (prior.maps, prior.trust, prior.hit_trust))


def test_a_soft_icon_is_smaller_than_without_training():
    icon = soft(32).astype(np.uint8)
    assert len(trained_mixing.encode([icon]).data) < 0.75 * len(pixel_mixing.encode([icon]).data)


def test_mixers_do_not_change_what_was_learned():
    before = [np.copy(part) for part in trained_prior(4)]
    trained_mixing.encode([soft(9).astype(np.uint8)])
    BitMixer.new(9, trained_prior(4)).laws.errors[:] = 0
    assert all(np.array_equal(*pair) for pair in zip(before, trained_prior(4), strict=True))


@pytest.mark.parametrize("content", [None, b"", TABLE.read_bytes()[:-1] + b"x"])
def test_what_was_learned_is_a_named_error_if_it_is_damaged_or_missing(tmp_path, monkeypatch, content):
    if content is not None:
        (tmp_path / "table.npz").write_bytes(content)
    monkeypatch.setattr(priors, "TABLE", tmp_path / "table.npz")
    with pytest.raises(ModelError, match="installation.*table.npz"):
        trained_prior.__wrapped__(4)


@given(st.integers(0, 2040), st.integers(44, 90_880), st.integers(0, 255))
def test_a_law_gives_each_sample_the_probability_between_its_thresholds(mean, slope, value):
    """Bits lead from all samples to one; where its share is large, their probabilities multiply to it."""
    laws = SampleLaws.new(np.zeros((1, 1), np.uint32))
    laws.means[:], laws.slopes[:], laws.above[:] = mean, slope, 65536
    probability, low = 1.0, 0
    for left in range(7, -1, -1):
        bit = value >> left & 1
        logit = law_logit(laws, 0, 8 * (low + (1 << left)) - 4, 8 << left)
        assert -2815 <= logit <= 2815 and laws.below[0] <= laws.here[0] <= laws.above[0]
        narrow_laws(laws, bit)
        probability *= 1 / (1 + np.exp(-logit / 256 if bit else logit / 256))
        low += bit << left
    share = (laws.above[0] - laws.below[0]) / 65536
    assert share < 0.05 or abs(probability / share - 1) < 0.05


def test_no_model_is_tried_on_a_drawn_icon(monkeypatch):
    def by_model(*_):
        raise AssertionError

    monkeypatch.setattr(candidates, "by_model", by_model)
    drawn = np.random.default_rng(1).integers(0, 256, (4, 4, 3)).repeat(8, 0).repeat(8, 1)
    report = codec.compress(pngs.write(drawn), [PROGRAM])[1]
    assert report.method == Method.TRAINED_MIXING.label


def test_models_are_tried_on_a_small_photograph(monkeypatch):
    tried = []
    monkeypatch.setattr(candidates, "by_model", lambda layers, *_: tried.extend(layers) or [[] for _ in layers])
    codec.compress(pngs.write(np.random.default_rng(1).integers(0, 256, (32, 32, 3))), [PROGRAM])
    assert tried
