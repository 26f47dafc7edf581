"""The codec of numcodecs, `dqcodec`: a compressor of arrays in zarr's format 2, and for other users of numcodecs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_bytes, ndarray_copy
from numcodecs.registry import register_codec

from dqcodec.arrays import chunks
from dqcodec.base.errors import UnsupportedImageError
from dqcodec.codec.conversion import unmasked


class Dqcodec(Codec):
    """Chunks (..., H, W) or (..., H, W, C), uint8 or little-endian uint16, as .dqc files; see chunks.py.

    channels: whether the last axis holds 1 to 4 channels; None: if it is short. best: try slow methods on large chunks
    too.
    """

    codec_id = "dqcodec"

    def __init__(self, channels: bool | None = None, best: bool = False):
        self.channels, self.best = channels, best

    def encode(self, buf: Any) -> bytes:
        """The .dqc file of an array. A chunk in Fortran's order is coded as its transpose, whose memory is the same.

        Raises UnsupportedImageError (another type or shape, or a mask), VerifyError.
        """
        chunk = unmasked(buf)
        if chunk.dtype not in ("|u1", "<u2"):  # decode does not learn the byte order
            raise UnsupportedImageError(f"chunks of type {chunk.dtype.str} are not supported: |u1 and <u2 are")
        is_transposed = chunk.flags.f_contiguous and not chunk.flags.c_contiguous
        return chunks.encode(chunk.T if is_transposed else chunk, channels=self.channels, best=self.best)

    def decode(self, buf: Any, out: Any = None) -> np.ndarray:
        """The array of a .dqc file, copied to `out` if that is given. Axes of one element may be missing.

        Raises CorruptError, FormatError, UnknownModelError.
        """
        chunk = chunks.decode(ensure_bytes(buf))
        return ndarray_copy(chunk.astype(chunk.dtype.newbyteorder("<"), copy=False), out)


register_codec(Dqcodec)  # numcodecs finds it by its entry point, too
