"""Finds the groups of an archive by its index: quick, but the index must be whole."""

from __future__ import annotations

from dqcodec.format.archive import END_BYTES, START, unpack_end
from dqcodec.format.directory import Directory, GroupPlace, ModelPlace, model_ids, model_place
from dqcodec.format.frame import INDEX_MARK, parsed, read_frame
from dqcodec.format.index_block import unpack_block
from dqcodec.format.positional import Positional


def read_index(file: Positional) -> Directory | None:
    """The groups, from the index of an archive that fills the file; None if anything contradicts the index."""
    stop = file.size - END_BYTES
    end = unpack_end(file.read(stop, END_BYTES)) if stop >= len(START) else None
    if end is None or file.read(0, len(START)) != START:
        return None
    start = position = stop - end.index_bytes
    if start < len(START):
        return None
    places: list[GroupPlace] = []
    offset = None
    while (frame := read_frame(file, position)) and frame.mark == INDEX_MARK:
        block = parsed(unpack_block, frame)
        if block is None:
            return None
        offset = block.offset if offset is None else offset
        found = frame.archive_id, frame.number, block.groups, block.offset
        if found != (end.archive_id, len(places), end.groups, offset):
            return None
        for size, names in block.places:
            places.append(GroupPlace(len(places), offset, size, names))
            offset += size
        position = frame.end
    again, after = _read_models(file, position)
    models, first = _read_models(file, len(START)) if again else ([], len(START))
    if after != stop or len(places) != end.groups or model_ids(again) != model_ids(models):
        return None
    if (places[0].offset, offset) != (first, start) if places else start != first:
        return None
    return Directory(end.archive_id, places, models=models + again)


def _read_models(file: Positional, position: int) -> tuple[list[ModelPlace], int]:
    """The models from a place on, and the offset after them."""
    models = []
    while (frame := read_frame(file, position)) and (model := model_place(frame)):
        models.append(model)
        position = frame.end
    return models, position
