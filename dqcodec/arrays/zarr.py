"""The codec of zarr 3, `dqcodec`: it turns the arrays of chunks into .dqc files."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from zarr.abc.codec import ArrayBytesCodec
from zarr.core.common import parse_named_configuration
from zarr.registry import register_codec

from dqcodec.arrays import chunks
from dqcodec.base.errors import CorruptError

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer


@dataclass(frozen=True)
class Dqcodec(ArrayBytesCodec):
    """Chunks (..., H, W) or (..., H, W, C), uint8 or uint16, as .dqc files; see chunks.py.

    channels: whether the last axis holds 1 to 4 channels; None: if it is short. best: try slow methods on large chunks
    too.
    """

    channels: bool | None = None
    best: bool = False

    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The codec of its metadata."""
        _, configuration = parse_named_configuration(data, "dqcodec", require_configuration=False)
        return cls(**(configuration or {}))

    def to_dict(self) -> dict[str, Any]:
        """The metadata: the fields that are not the usual ones."""
        usual = type(self)()
        fields = {"channels": self.channels, "best": self.best}
        changed = {key: value for key, value in fields.items() if value != getattr(usual, key)}
        return {"name": "dqcodec", "configuration": changed}

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Raise ValueError for arrays whose chunks hold no images."""
        if dtype.to_native_dtype().newbyteorder("=") not in chunks.DTYPES:
            raise ValueError(f"dqcodec codes arrays of uint8 and uint16, not {dtype.to_native_dtype()}")
        if len(shape) < 2:
            raise ValueError("dqcodec codes arrays of at least two axes: rows and columns")
        if self.channels and (len(shape) < 3 or chunk_grid.chunk_shape[-1] > chunks.MOST_CHANNELS):
            raise ValueError("dqcodec codes arrays of rows, columns and 1 to 4 channels, if these are the last axis")

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer:
        chunk = chunk_data.as_numpy_array()
        data = await asyncio.to_thread(chunks.encode, chunk, channels=self.channels, best=self.best)
        return chunk_spec.prototype.buffer.from_bytes(data)

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        chunk = await asyncio.to_thread(chunks.decode, chunk_data.to_bytes(), chunk_spec.shape)
        dtype = chunk_spec.dtype.to_native_dtype()
        if chunk.dtype != dtype.newbyteorder("="):
            raise CorruptError(f"a chunk of type {chunk.dtype}, not {dtype}")
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(chunk.astype(dtype, copy=False))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """No size is known before a chunk is coded."""
        raise NotImplementedError


register_codec("dqcodec", Dqcodec)  # zarr finds it by its entry point, too
