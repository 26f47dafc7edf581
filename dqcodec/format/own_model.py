"""A model that an archive brings, as bytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from dqcodec.base.errors import CorruptError
from dqcodec.format.frame import ID_BYTES, MODEL_MARK, pack_frame
from dqcodec.format.layer import MODEL_ID_BYTES
from dqcodec.format.section import pack_tagged, read_tagged

MODEL_COPIES = 2  # of a model in an archive


@dataclass(frozen=True)
class OwnModel:
    """A model that an archive brings: the changes of another, its base, as exact.autoregressive.changes has them."""

    base: bytes
    changes: bytes

    @cached_property
    def id(self) -> bytes:
        """The id by which layers refer to the model, 8 bytes."""
        return hashlib.sha256(self.base + self.changes).digest()[:MODEL_ID_BYTES]


def pack_model(model: OwnModel) -> tuple[bytes, bytes]:
    """The packed header and the body of a model."""
    return pack_tagged(model.id + model.base), pack_tagged(model.changes)


def unpack_model_id(header: bytes) -> tuple[bytes, bytes]:
    """(model id, id of the base) in the packed header of a model; raises CorruptError."""
    ids = read_tagged(header).rest()
    if len(ids) != 2 * MODEL_ID_BYTES:
        raise CorruptError("malformed model in an archive")
    return ids[:MODEL_ID_BYTES], ids[MODEL_ID_BYTES:]


def unpack_model(header: bytes, body: bytes) -> OwnModel:
    """The inverse of pack_model; raises CorruptError."""
    model_id, base = unpack_model_id(header)
    model = OwnModel(base, read_tagged(body).rest())
    if model.id != model_id:
        raise CorruptError("a model in the archive does not match its id")
    return model


def model_bytes(model: OwnModel) -> int:
    """The bytes that an archive takes for a model, all copies."""
    return MODEL_COPIES * len(pack_frame(MODEL_MARK, bytes(ID_BYTES), 0, *pack_model(model)))
