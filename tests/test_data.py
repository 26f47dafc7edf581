"""Training data: folders with any files, arrays, crops and tiles."""

import numpy as np
import pytest
from flows import smooth_images
from PIL import Image

from dqcodec.training import data
from dqcodec.training.data import Crops, DataError


def test_a_folder_of_all_kinds_is_read(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "deeper").mkdir()
    Image.fromarray(rng.integers(0, 256, (20, 30, 3), np.uint8)).save(tmp_path / "a.png")
    Image.fromarray(rng.integers(0, 256, (20, 30), np.uint8)).save(tmp_path / "deeper" / "gray.png")
    Image.fromarray(rng.integers(0, 256, (20, 30, 4), np.uint8)).save(tmp_path / "alpha.png")
    Image.fromarray(rng.integers(0, 256, (20, 30, 3), np.uint8)).save(tmp_path / "b.jpg")
    Image.fromarray(rng.integers(0, 256, (20, 7, 3), np.uint8)).save(tmp_path / "narrow.png")
    Image.fromarray(rng.integers(0, 60000, (20, 30), np.uint16)).save(tmp_path / "deep.png")
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    np.save(tmp_path / "c.npy", smooth_images(5, 16, 3))
    np.savez(tmp_path / "d.npz", x=smooth_images(2, 16, 3), y=smooth_images(1, 16, 3))
    images = data.load(tmp_path, 3, 16)
    assert len(images.train.images) + len(images.valid.images) == 4 + 5 + 3
    assert all(
        image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8
        for image in images.train.images + images.valid.images
    )


@pytest.mark.parametrize("channels", [1, 3])
def test_arrays_are_split_as_they_say_or_every_40th(tmp_path, channels):
    array = smooth_images(81, 8, channels)
    np.save(tmp_path / "a.npy", array[..., 0] if channels == 1 else array)
    images = data.load(tmp_path / "a.npy", channels, 8)
    assert [len(images.train.images), len(images.valid.images)] == [78, 3]
    np.savez(tmp_path / "b.npz", train=array[:5], valid=array[5:])
    images = data.load(tmp_path / "b.npz", channels, 8)
    assert [len(images.train.images), len(images.valid.images)] == [5, 76]


def test_test_images_are_a_part_of_their_own(tmp_path):
    array = smooth_images(9, 8, 3)
    np.savez(tmp_path / "a.npz", train=array[:5], valid=array[5:7], test=array[7:])
    np.savez(tmp_path / "b.npz", x=array[:5], test=array[5:])
    np.save(tmp_path / "c.npy", array[:1])
    counts = {name: len(data.part(tmp_path / "a.npz", name, 3, 8).images) for name in ("train", "valid", "test", "all")}
    assert counts == {"train": 5, "valid": 2, "test": 2, "all": 7}
    images = data.load(tmp_path / "b.npz", 3, 8)
    assert len(images.train.images) + len(images.valid.images) == 5  # nothing is trained on them
    assert len(data.part(tmp_path / "c.npy", "all", 3, 8).images) == 1
    with pytest.raises(DataError, match="no array 'test'"):
        data.part(tmp_path / "c.npy", "test", 3, 8)


@pytest.mark.parametrize(
    "array",
    [np.zeros((3, 8, 8, 3)), np.zeros((3, 8, 8, 2), np.uint8), np.zeros((3, 4, 4, 3), np.uint8), np.zeros(3, np.uint8)],
)
def test_unusable_arrays_are_refused_by_name(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(DataError, match="a.npy"):
        data.load(tmp_path / "a.npy", 3, 8)


def test_a_file_that_is_no_array_is_refused(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK")
    with pytest.raises(DataError):
        data.load(tmp_path / "a.npz", 3, 8)


@pytest.mark.parametrize(
    "images",
    [[], [np.zeros((8, 8), np.uint8)], [np.zeros((8, 8, 3), np.float32)], [np.zeros((8, 3, 3), np.uint8)]],
    ids=["none", "no channels", "no bytes", "too small"],
)
def test_arrays_that_give_no_crops_are_refused(images):
    with pytest.raises(DataError):
        Crops(images, 4, 8)


def test_crops_are_parts_of_the_images_flipped_or_not():
    image = np.arange(5 * 7, dtype=np.uint8).reshape(5, 7, 1)
    parts = {image[i : i + 4, j : j + 4, 0].tobytes() for i in range(2) for j in range(4)}
    flipped = {image[i : i + 4, j : j + 4, 0][:, ::-1].tobytes() for i in range(2) for j in range(4)}
    crops = Crops([image], 4, 8).draw(200, True, np.random.default_rng(0))
    assert crops.shape == (200, 1, 4, 4)
    assert {crop.tobytes() for crop in crops} == parts | flipped


def test_tiles_cover_what_whole_tiles_can_once():
    image = np.arange(9 * 13, dtype=np.uint8).reshape(9, 13, 1)
    tiles = np.concatenate(list(Crops([image, image], 4, 8).tiles(5)))
    assert len(tiles) == 2 * 2 * 3
    assert sorted(tiles[:6].ravel()) == sorted(image[:8, :12].ravel())
    assert len(np.concatenate(list(Crops([image, image], 4, 8).tiles(5, 7)))) == 7


def test_few_bits_are_the_high_ones():
    crops = Crops([np.full((4, 4, 1), 0b10110111, np.uint8)], 4, 3).draw(1, False, np.random.default_rng(0))
    assert (crops == 0b101).all()
