"""The codecs of zarr and numcodecs give back every chunk, are found by their name, and work in several threads."""

import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dqcodec.arrays import chunks
from dqcodec.base.errors import CorruptError, UnsupportedImageError
from dqcodec.codec.library import compress_archive, decompress
from dqcodec.format.archive import is_archive

zarr = pytest.importorskip("zarr")
da = pytest.importorskip("dask.array")
numcodecs = pytest.importorskip("numcodecs")
from dqcodec.arrays.numcodecs import Dqcodec as NumcodecsCodec  # noqa: E402
from dqcodec.arrays.zarr import Dqcodec as ZarrCodec  # noqa: E402

ROOT = Path(__file__).parents[1]
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def folder(quick_folder):
    return quick_folder


def volume(*shape, dtype=np.uint8):
    """A smooth array with noise in its lowest bits."""
    waves = sum(np.sin(axis / 7) for axis in np.indices(shape))
    top = np.iinfo(dtype).max
    return ((waves / len(shape) + 1) / 2 * (top - 8) + RNG.integers(0, 8, shape)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, ">u2"])
@pytest.mark.parametrize(
    "shape", [(9, 7), (9, 7, 3), (1, 1, 9, 7), (5, 9, 7), (2, 3, 9, 7, 3), (1, 1), (3, 1, 1), (9, 7, 1), (6, 5, 9)]
)
def test_chunks_come_back(shape, dtype):
    chunk = volume(*shape).astype(dtype) * (1 if dtype == np.uint8 else 257)
    data = chunks.encode(chunk)
    back = chunks.decode(data, shape)
    assert back.dtype == np.dtype(dtype).newbyteorder("=") and np.array_equal(back, chunk)


def test_a_chunk_of_one_image_is_a_dqc_file_and_one_of_several_an_archive():
    image = volume(9, 7, 3)
    assert np.array_equal(decompress(chunks.encode(image)), image)
    assert np.array_equal(decompress(chunks.encode(image[None])), image)
    assert is_archive(chunks.encode(image, channels=False)) and is_archive(chunks.encode(volume(3, 9, 7)))


def test_chunks_that_hold_no_images_are_refused():
    for chunk in (np.zeros((3, 3)), np.zeros(4, np.uint8), np.zeros((0, 3), np.uint8), np.zeros((3, 3), bool)):
        with pytest.raises(UnsupportedImageError):
            chunks.encode(chunk)
    with pytest.raises(UnsupportedImageError):
        chunks.encode(np.zeros((3, 3, 9), np.uint8), channels=True)


def test_a_damaged_chunk_or_one_of_another_shape_is_an_error():
    for chunk in (volume(9, 7), volume(3, 9, 7)):
        data = bytearray(chunks.encode(chunk))
        for shape in ((9, 8), (*chunk.shape[:-2], 7, 9)):
            with pytest.raises(CorruptError):
                chunks.decode(bytes(data), shape)
        for position in range(8, len(data), 41):
            damaged = data.copy()
            damaged[position] ^= 16
            with pytest.raises((CorruptError, UnsupportedImageError)):
                chunks.decode(bytes(damaged), chunk.shape)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", ">u2"])
def test_zarr_3_arrays_come_back(dtype):
    data = volume(4, 40, 50, dtype=np.dtype(dtype).newbyteorder("="))
    array = zarr.create_array(
        "a.zarr", shape=data.shape, chunks=(3, 16, 50), dtype=dtype, serializer=ZarrCodec(), compressors=None
    )
    array[:] = data
    array[1, 5:9] = 7
    data[1, 5:9] = 7
    again = zarr.open_array("a.zarr", mode="r")
    assert np.array_equal(again[:], data) and np.array_equal(again[2, 3:30, 4:44], data[2, 3:30, 4:44])
    assert again.metadata.codecs[0] == ZarrCodec()


def test_zarr_3_shards_and_colours_come_back():
    data = volume(40, 50, 3)
    array = zarr.create_array(
        "a.zarr", shape=data.shape, chunks=(10, 25, 3), shards=(20, 50, 3), dtype="uint8", compressors=None,
        serializer=ZarrCodec(best=True),
    )  # fmt: skip
    array[:] = data
    assert np.array_equal(zarr.open_array("a.zarr", mode="r")[:], data)
    assert zarr.open_array("a.zarr").metadata.to_dict()["codecs"][0]["configuration"]["codecs"][0] == {
        "name": "dqcodec",
        "configuration": {"best": True},
    }


def test_an_archive_of_named_images_is_no_chunk():
    data = compress_archive({"x": volume(2, 8, 8)[0], "y": volume(2, 8, 8)[1]})
    with pytest.raises(CorruptError, match="no chunk"):
        chunks.decode(data, (2, 8, 8))


def test_zarr_refuses_arrays_without_images():
    refused = ((8, 8), "float32", None), ((8,), "uint8", None), ((8, 8), "uint8", True), ((8, 8, 5), "uint8", True)
    for shape, dtype, channels in refused:
        with pytest.raises(ValueError, match="dqcodec codes arrays of"):
            zarr.create_array("a.zarr", shape=shape, chunks=shape, dtype=dtype, serializer=ZarrCodec(channels))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["uint8", "<u2"])
def test_zarr_2_arrays_come_back(dtype, order):
    data = volume(20, 30, 3, dtype=np.dtype(dtype))
    array = zarr.create_array(
        "a.zarr", shape=data.shape, chunks=(20, 16, 3), dtype=dtype, zarr_format=2, compressors=NumcodecsCodec(),
        order=order,
    )  # fmt: skip
    array[:] = data
    assert np.array_equal(zarr.open_array("a.zarr", mode="r")[:], data)


def test_numcodecs_fills_out_and_keeps_its_configuration():
    codec = numcodecs.get_codec({"id": "dqcodec", "best": True})
    assert codec.get_config() == {"id": "dqcodec", "channels": None, "best": True}
    data = volume(9, 7, dtype=np.uint16)
    out = np.empty_like(data)
    codec.decode(codec.encode(data), out)
    assert np.array_equal(out, data)
    with pytest.raises(UnsupportedImageError):
        codec.encode(data.astype(">u2"))


def test_numcodecs_refuses_a_mask_that_it_would_lose():
    chunk = np.ma.array(volume(5, 6), mask=np.eye(5, 6, dtype=bool))
    with pytest.raises(UnsupportedImageError, match="mask"):
        numcodecs.get_codec({"id": "dqcodec"}).encode(chunk)


def test_dask_writes_and_reads_with_several_threads():
    data = volume(6, 48, 40, dtype=np.uint16)
    array = zarr.create_array(
        "a.zarr", shape=data.shape, chunks=(2, 16, 40), dtype="uint16", serializer=ZarrCodec(), compressors=None
    )
    source = da.from_array(data, chunks=(2, 16, 40))
    da.store(source, array, scheduler="threads", num_workers=4, lock=False)
    read = da.from_zarr(zarr.open_array("a.zarr", mode="r"))
    assert np.array_equal(read.compute(scheduler="threads", num_workers=4), data)
    total = (read + 1).sum().compute(scheduler="threads", num_workers=4)
    assert total == data.sum() + data.size


def test_many_threads_code_chunks_alike():
    data = [volume(16, 12 + number) for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(chunks.encode, data))
        back = list(pool.map(chunks.decode, codes))
    assert codes == [chunks.encode(each) for each in data]
    assert all(map(np.array_equal, back, data))


def test_zarr_and_numcodecs_find_the_codecs_by_name(tmp_path):
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    installed = tmp_path / "packages" / "dqcodec_entries-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: dqcodec-entries\nVersion: 0\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in groups.items()]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    script = (
        "import zarr, numcodecs, sys\n"
        "assert 'dqcodec' not in sys.modules\n"
        "print(zarr.registry.get_codec_class('dqcodec').__module__)\n"
        "print(type(numcodecs.get_codec({'id': 'dqcodec'})).__module__)\n"
    )
    paths = os.pathsep.join(map(str, (installed.parent, ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.stdout.split() == ["dqcodec.arrays.zarr", "dqcodec.arrays.numcodecs"], done.stderr
