"""What an archive's directory says: where its groups and models are, and what is damaged. It loads what is at a place.

index.py reads a directory from the index; salvage.py makes it by a scan of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dqcodec.base.errors import CorruptError
from dqcodec.format.archive_group import ArchiveGroup, unpack_group
from dqcodec.format.frame import GROUP_MARK, MODEL_MARK, Frame, parsed, read_body, read_frame
from dqcodec.format.own_model import OwnModel, unpack_model, unpack_model_id
from dqcodec.format.positional import Positional


@dataclass(frozen=True)
class GroupPlace:
    """A group's place: its number, its offset and length in bytes, and the names of its members."""

    number: int
    offset: int
    length: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class ModelPlace:
    """The place of a copy of a model: its offset and length in bytes; model_id, base: of the model."""

    model_id: bytes
    base: bytes
    offset: int
    length: int


@dataclass(frozen=True)
class Damage:
    """Damage of an archive.

    what: in a few words. names: the lost members whose names are known. is_loss: whether members are lost, or may be.
    """

    what: str
    names: tuple[str, ...] = ()
    is_loss: bool = True


@dataclass(frozen=True)
class Directory:
    """The whole groups of an archive, in order, and its damage.

    lost: the damaged groups whose names are known. models: copies of models; their bodies may be damaged.
    """

    archive_id: bytes
    places: list[GroupPlace]
    damage: list[Damage] = field(default_factory=list)
    lost: list[GroupPlace] = field(default_factory=list)
    models: list[ModelPlace] = field(default_factory=list)


def load_group(file: Positional, archive_id: bytes, place: GroupPlace, max_pixels: int) -> ArchiveGroup:
    """Read the group at a place.

    Raises CorruptError (damaged, or another group or other names than expected), UnsupportedImageError (all images
    together have more than `max_pixels`), OSError.
    """
    frame = read_frame(file, place.offset)
    if frame is None or frame.mark != GROUP_MARK or frame.end - frame.offset != place.length:
        raise CorruptError("damaged group of files")
    if (frame.archive_id, frame.number) != (archive_id, place.number):
        raise CorruptError("another group is at the place that the index gives")
    body = read_body(file, frame)
    if body is None:
        raise CorruptError("damaged group of files (its CRC differs)")
    group = unpack_group(frame.header, body, max_pixels)
    if tuple(member.name for member in group.members) != place.names:
        raise CorruptError("a group holds other files than the index names")
    return group


def load_model(file: Positional, place: ModelPlace) -> OwnModel | None:
    """The model at a place, or None if this copy is damaged. Raises OSError."""
    frame = read_frame(file, place.offset)
    if frame is None or model_place(frame) != place:
        return None
    body = read_body(file, frame)
    try:
        return None if body is None else unpack_model(frame.header, body)
    except CorruptError:
        return None


def model_place(frame: Frame) -> ModelPlace | None:
    """The place of a model; None if the frame is none."""
    ids = parsed(unpack_model_id, frame) if frame.mark == MODEL_MARK else None
    return ids and ModelPlace(*ids, frame.offset, frame.end - frame.offset)


def model_ids(models: Sequence[ModelPlace]) -> list[bytes]:
    """The ids of the models at some places."""
    return [model.model_id for model in models]
