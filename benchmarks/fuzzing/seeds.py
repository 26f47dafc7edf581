"""What seeds are made of: PNG files of all kinds, and the golden models."""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pngs

from dqcodec.base.errors import UnknownModelError
from dqcodec.codec import codec
from dqcodec.exact.program import load_program
from fuzzing.limits import ROOT

ONE_PIXEL = struct.pack(">IIIIHHBB", 1, 1, 0, 0, 1, 10, 0, 0)  # the end of a chunk fcTL


@functools.cache
def images(model: bool = False) -> list[bytes]:
    """PNG files of all kinds; `model`: such as models code."""
    rng = np.random.default_rng(0)
    ramp = np.indices((20, 26)).sum(0)[..., None] * 4 + np.arange(3) * 30 + rng.integers(0, 9, (20, 26, 3))
    if model:
        return [pngs.write(ramp)]
    text, colors = pngs.chunk(b"tEXt", b"Comment\0hello"), rng.integers(0, 3, (9, 7, 1))
    files = [pngs.random(rng, 5, 6, *kind, before=text if kind[1] == 8 else b"") for kind in pngs.KINDS]
    files += [pngs.random(rng, 9, 11, 2, 8, interlace=True), pngs.random(rng, 3, 2, 0, 2, interlace=True, after=text)]
    files += [pngs.write(colors, 8, 3, before=pngs.chunk(b"tRNS", b"\0\x80")), pngs.write(ramp, idats=3)]
    files += [pngs.write((colors.repeat(4, 2) * 257), 16), pngs.write(colors * 0 + np.arange(7)[:, None] * 900, 16)]
    few = (colors * 40).repeat(6, 0).repeat(6, 1)  # whose views have indices of colours, and fewer channels
    files += [pngs.write(np.concatenate([few, few // 2 + 9, few, 0 * few + 255], axis=2))]
    packed = pngs.chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"a text, and again a text " * 5))
    files += [pngs.write(colors, before=packed)]  # whose chunk is kept inflated
    frames = [((1, 2), rng.integers(0, 256, (3, 4, 3))), ((0, 0), rng.integers(0, 256, (6, 7, 3)))]
    files += [
        pngs.animated(rng.integers(0, 256, (6, 7, 3)), frames, is_first=first, before=text) for first in (True, False)
    ]
    order = rng.permutation(256)  # of grays: a palette that is best coded by way of its colours
    palette = pngs.chunk(b"PLTE", bytes(np.argsort(order).astype(np.uint8).repeat(3))) + pngs.chunk(
        b"tRNS", b"\x80" * 3
    )
    shades = order[np.indices((48, 40)).sum(0) * 2 + rng.integers(0, 3, (48, 40))][..., None]
    data = b"".join(pngs.chunk(b"IDAT", piece) for piece in pngs.pieces(shades))
    files.append(pngs.SIGNATURE + pngs.header(40, 48, 8, 3) + palette + data + pngs.chunk(b"IEND"))
    return [*files, pngs.write(ramp[:3, :3], tail=b"more")]


def model_paths() -> list[Path]:
    return sorted((ROOT / "tests" / "golden").glob("*.safetensors"))


@functools.cache
def programs() -> list:
    return list(map(load_program, model_paths()))


def find_program(model_id: bytes):
    for program in programs():
        if program.id == model_id:
            return program
    raise UnknownModelError("no such model")


def compressed(image: bytes, programs: Sequence = (), *, exact: bool = False) -> bytes:
    return codec.compress(image, programs, exact=exact)[0]
