"""An ArchiveDataset gives the archive's pixels, in any process and order, and decodes a group no more than needed."""

import pickle

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader

from dqcodec.base.errors import UnsupportedImageError
from dqcodec.codec import archive
from dqcodec.command.cli import main
from dqcodec.torch import ArchiveDataset, GroupBatchSampler

RNG = np.random.default_rng(0)
PIXELS = {f"{'ab'[n % 2]}/{n:02d}.png": RNG.integers(0, 256, (8, 9, 3), np.uint8) for n in range(21)}


@pytest.fixture
def packed(quick_folder):
    for name, pixels in PIXELS.items():
        path = quick_folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    done = CliRunner().invoke(main, ["compress", "in", "-o", "set.dqc", "--group", "4"])
    assert done.exit_code == 0, done.output
    return quick_folder / "set.dqc"


@pytest.fixture
def decoded(monkeypatch):
    """A list that gets one entry for each set of images that is decoded."""
    calls, decode = [], archive.decode
    monkeypatch.setattr(archive, "decode", lambda part, *rest: calls.append(len(part.entries)) or decode(part, *rest))
    return calls


def label(name):
    return "ab".index(name[0])


def first_sample(pixels):
    return int(pixels[0, 0, 0])


def test_items_are_the_images_of_the_archive(packed):
    dataset = ArchiveDataset(packed, target=label)
    assert dataset.names == sorted(PIXELS) and len(dataset) == 21
    for index, name in enumerate(dataset.names):
        item, target = dataset[index]
        assert item.dtype == torch.uint8 and np.array_equal(item.permute(1, 2, 0).numpy(), PIXELS[name])
        assert target == label(name)
    assert torch.equal(dataset[-1][0], dataset[20][0])
    with pytest.raises(IndexError):
        dataset[21]


def test_transform_gets_pixels_of_its_own_and_names_choose(packed):
    names = sorted(PIXELS)[3:9]
    dataset = ArchiveDataset(packed, lambda pixels: pixels.fill(0) or pixels, names=reversed(names))
    assert dataset.names == names and not dataset[0].any()
    dataset.transform = None
    assert np.array_equal(dataset[0].permute(1, 2, 0).numpy(), PIXELS[names[0]])
    with pytest.raises(KeyError, match="nothing"):
        ArchiveDataset(packed, names=["nothing"])


def test_a_file_that_is_no_image_fails_alone_and_is_named(quick_folder):
    (quick_folder / "in").mkdir()
    (quick_folder / "in/notes.txt").write_text("text")
    Image.fromarray(PIXELS["a/00.png"]).save("in/a.png")
    assert CliRunner().invoke(main, ["compress", "in", "-o", "set.dqc", "--others", "keep"]).exit_code == 0
    dataset = ArchiveDataset("set.dqc")
    assert dataset[0].shape == (3, 8, 9)
    with pytest.raises(UnsupportedImageError, match="^notes.txt: "):
        dataset[1]


def test_gray_16_bit_images_are_one_plane(quick_folder):
    pixels = RNG.integers(0, 1 << 16, (5, 6)).astype(np.uint16)
    (quick_folder / "in").mkdir()
    Image.fromarray(pixels).save("in/a.png")
    assert CliRunner().invoke(main, ["compress", "in", "-o", "set.dqc"]).exit_code == 0
    item = ArchiveDataset("set.dqc")[0]
    assert item.dtype == torch.uint16 and np.array_equal(item.numpy(), pixels[None])


def test_reading_in_order_decodes_each_group_once(packed, decoded):
    dataset = ArchiveDataset(packed, cache_bytes=0)
    for index in range(len(dataset)):
        dataset[index]
    assert sum(decoded) == 21
    dataset[0], dataset[20], dataset[0]
    assert sum(decoded) > 21 and len(dataset._kept) == 1


def test_an_archive_that_fits_the_cache_is_decoded_once_in_any_order(packed, decoded):
    dataset = ArchiveDataset(packed)
    for index in RNG.permutation(2 * len(dataset)) % len(dataset):
        dataset[int(index)]
    assert sum(decoded) == 21


def test_a_pickled_dataset_reads_the_same_and_takes_no_pixels_along(packed):
    dataset = ArchiveDataset(packed, first_sample, label)
    items = [dataset[index] for index in range(len(dataset))]
    data = pickle.dumps(dataset)
    again = pickle.loads(data)
    assert not again._kept and [again[index] for index in range(len(again))] == items
    assert again.groups == dataset.groups


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_every_start_method_give_the_same_items(packed, method):
    dataset = ArchiveDataset(packed, first_sample, label)
    here = [dataset[index] for index in range(len(dataset))]  # a process with used locks and caches forks
    loader = DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context=method, timeout=100, persistent_workers=True
    )
    for _ in range(2):
        assert [tuple(item) for item in loader] == here


def test_forked_workers_have_the_groups_that_were_read_before(packed, monkeypatch):
    dataset = ArchiveDataset(packed, first_sample)
    here = [dataset[index] for index in range(len(dataset))]
    monkeypatch.setattr(archive, "decode", None)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=100)
    assert list(loader) == here


def test_batches_by_group_take_each_image_once_and_each_worker_decodes_its_groups_once(packed, decoded):
    dataset = ArchiveDataset(packed, cache_bytes=0)
    sampler = GroupBatchSampler(dataset, 3, workers=1, mixed=1)
    batches = list(sampler)
    assert sorted(image for batch in batches for image in batch) == list(range(21)) and len(batches) == len(sampler)
    for batch in batches:
        for image in batch:
            dataset[image]
    assert sum(decoded) == 21
    loader = DataLoader(dataset, batch_sampler=GroupBatchSampler(dataset, 4, workers=2), num_workers=2, timeout=100)
    assert sum(len(batch) for batch in loader) == 21


class Groups:
    def __init__(self, sizes):
        ends = np.cumsum(sizes).tolist()
        self.groups = [range(end - size, end) for size, end in zip(sizes, ends)]


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(1, 5), st.integers(0, 4), st.integers(1, 3),
    st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_batches_by_group_hold_whole_epochs(sizes, batch_size, workers, mixed, drop_last, seed):
    dataset = Groups(sizes)
    sampler = GroupBatchSampler(
        dataset, batch_size, workers=workers, mixed=mixed, drop_last=drop_last,
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    first, second = list(sampler), list(sampler)
    for batches in (first, second):
        images = [image for batch in batches for image in batch]
        assert len(batches) == len(sampler) and len(set(images)) == len(images)
        assert drop_last or sorted(images) == list(range(sum(sizes)))
        assert all(len(batch) == batch_size for batch in batches) or not drop_last
    if sum(sizes) > 9:
        again = GroupBatchSampler(
            dataset, batch_size, workers=workers, mixed=mixed, drop_last=drop_last,
            generator=torch.Generator().manual_seed(seed),
        )  # fmt: skip
        assert list(again) == first
