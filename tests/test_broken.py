"""A broken PNG is refused, or kept byte for byte if the user asks for it."""

import numpy as np
import pngs
import pytest
from dqc import stored

from dqcodec import png
from dqcodec.base.errors import CorruptError, UnsupportedImageError
from dqcodec.codec import codec, library

WHOLE = pngs.random(np.random.default_rng(0), 9, 7, before=pngs.chunk(b"tEXt", b"Comment\0hello"))


def flip_crc(data, kind):
    """A PNG with one wrong bit in the CRC of the last chunk of a kind."""
    place = data.rindex(kind)
    end = place + 4 + int.from_bytes(data[place - 4 : place], "big")
    return data[:end] + bytes([data[end] ^ 1]) + data[end + 1 :]


BROKEN = {
    "no IEND": WHOLE[:-12],
    "ancillary CRC": flip_crc(WHOLE, b"tEXt"),
    "CRC of IEND": flip_crc(WHOLE, b"IEND"),
    "CRC of the last IDAT": flip_crc(WHOLE, b"IDAT"),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_broken_pngs_are_refused_without_broken_keep(data):
    with pytest.raises(CorruptError):
        codec.compress(data)
    dqc, report = codec.compress(data, keep_broken=True)
    assert codec.decompress(dqc, None)[0] == data and len(dqc) == len(data) + 10
    assert report.method == "stored" and report.broken and report.broken in report.line()
    told = codec.info(dqc)
    assert (told.method, told.width, told.height, told.samples) == ("stored", 7, 9, 3)
    with pytest.raises(CorruptError):
        library.decompress(dqc)  # its pixels are not sure


@pytest.mark.parametrize("option", ["strip", "exact"])
def test_broken_pngs_stay_as_they_are_with_any_option(option):
    data = BROKEN["no IEND"]
    dqc, _ = codec.compress(data, keep_broken=True, **{option: True})
    assert codec.decompress(dqc, None)[0] == data


def test_whole_pngs_are_coded_the_same_if_broken_ones_are_kept():
    dqc, report = codec.compress(WHOLE, keep_broken=True)
    assert dqc == codec.compress(WHOLE)[0] and report.broken is None


def test_broken_pngs_without_a_valid_header_are_no_images():
    for data in (WHOLE[:20], flip_crc(WHOLE, b"IHDR"), png.SIGNATURE, WHOLE.replace(b"IHDR", b"IHDr")):
        with pytest.raises(CorruptError):
            codec.compress(data, keep_broken=True)
        with pytest.raises(CorruptError):
            codec.decompress(stored(data).pack(), None)


def test_the_pixel_limit_holds_for_broken_pngs_both_ways():
    data = BROKEN["no IEND"]
    dqc, _ = codec.compress(data, keep_broken=True, max_pixels=63)
    for refuse in (
        lambda: codec.compress(data, keep_broken=True, max_pixels=62),
        lambda: codec.decompress(dqc, None, max_pixels=62),
        lambda: codec.info(dqc, max_pixels=62),
    ):
        with pytest.raises(UnsupportedImageError, match="limit of 62"):
            refuse()
