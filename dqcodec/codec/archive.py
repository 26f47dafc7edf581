"""An archive as a mapping: name -> the bytes of the file. format/archive.py specifies the format."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np

from dqcodec.base.errors import CorruptError, DqcodecError, FormatError, UnsupportedImageError, VerifyError
from dqcodec.codec import conversion, own_models, zoo
from dqcodec.codec.group import Decoded, decode, decode_regions, restore
from dqcodec.codec.region import Region
from dqcodec.exact.program import FindProgram
from dqcodec.format.archive import MAGIC, START, VERSION, is_archive
from dqcodec.format.archive_group import ArchiveGroup, Member, Verbatim
from dqcodec.format.container import Group
from dqcodec.format.directory import Damage, Directory, GroupPlace, ModelPlace, load_group, load_model
from dqcodec.format.index import read_index
from dqcodec.format.names import clashes
from dqcodec.format.own_model import OwnModel
from dqcodec.format.positional import Positional
from dqcodec.format.salvage import scan
from dqcodec.png import MAX_PIXELS


class Archive(Mapping[str, bytes]):
    """The files of an archive in its order: name -> bytes of the PNG file, or of a file kept verbatim.

    A file is read and decoded at lookup. Several threads may read one archive at once. An archive opened by its path
    can be pickled, for other processes. Each thread keeps the group that it read last, so reading the files in order
    decodes each set of images once.

    If the index is damaged, the whole file is scanned for groups; the archive opens if all names are known. With
    `salvage` the file is always scanned, and the archive opens with all groups that are whole. Several archives in one
    file become one; the names of the second start with `archive-2/`, and so on.

    damage: the damage that was found when the archive was opened.

    Lookup raises KeyError (no such name), CorruptError (the group is damaged), UnsupportedImageError (more than
    `max_pixels`), UnknownModelError, OSError.
    """

    def __init__(
        self,
        file: str | os.PathLike | BinaryIO,
        find_program: FindProgram | None = None,
        max_pixels: int = MAX_PIXELS,
        *,
        salvage: bool = False,
    ):
        """Open an archive by its path, or in a seekable binary file, which the archive then closes.

        find_program: model id -> program; None: among the models at hand. Raises OSError, FormatError (not an archive,
        or of another version), CorruptError (damaged so that a name may be lost), TypeError (no file).
        """
        is_path = isinstance(file, str | os.PathLike)
        if not is_path and not hasattr(file, "seek"):
            raise TypeError(f"an archive is opened by its path or in a binary file, not as {type(file).__name__}")
        self._recipe = (file, find_program, max_pixels, salvage) if is_path else None
        self._find_program, self._max_pixels = find_program, max_pixels
        self._file = open(file, "rb") if is_path else file
        try:
            self._bytes = Positional(self._file)
            self.damage: tuple[Damage, ...] = ()
            self._groups: list[tuple[bytes, GroupPlace]] = []
            self._models: dict[bytes, list[ModelPlace]] = {}  # the copies of each
            self._loaded: dict[bytes, OwnModel] = {}
            self._names: list[list[str | None]] = []  # of each group's members; None: left out
            self._list(_open(self._bytes, salvage), salvage)
        except BaseException:
            self.close()
            raise
        self._places = {
            name: (group, number)
            for group, names in enumerate(self._names)
            for number, name in enumerate(names)
            if name is not None
        }
        self._kept = threading.local()

    def _list(self, directories: list[Directory], salvage: bool) -> None:
        """Set groups, names and damage. A name that occurs twice raises CorruptError; with
        `salvage` only its first file is kept.
        """
        tops = {name.split("/")[0] for directory in directories for place in directory.places for name in place.names}
        folders, damage = (f"archive-{number}" for number in itertools.count(2)), []
        for number, directory in enumerate(directories):
            folder = next(each for each in folders if each not in tops) + "/" if number else ""
            for place in directory.places:
                self._groups.append((directory.archive_id, place))
                self._names.append([folder + name for name in place.names])
            for model in directory.models:
                self._models.setdefault(model.model_id, []).append(model)
            damage += [
                dataclasses.replace(each, names=tuple(folder + name for name in each.names))
                for each in directory.damage
            ]
        places = [(group, member) for group, names in enumerate(self._names) for member in range(len(names))]
        clashing = [places[each] for each in sorted(clashes([self._names[group][member] for group, member in places]))]
        if clashing and not salvage:
            raise CorruptError("the archive has two files of one name")
        for group, member in clashing:
            name, self._names[group][member] = self._names[group][member], None
            damage.append(Damage("an earlier file has this name, or the name of its folder", (name,)))
        self.damage = tuple(damage)

    def __getitem__(self, name: str) -> bytes:
        """The bytes of a file; see the class for errors."""
        group, part, image, decoded = self._find(name)
        if isinstance(part, Verbatim):
            return part.data
        return restore(part.entries[image], self._images(group, part, decoded)[image])

    def read(self, name: str, region: tuple[int, int, int, int] | None = None) -> np.ndarray:
        """The pixels of an image, as in library.decompress, in a new array.

        region: only this part, (left, top, right, bottom) as in Pillow's crop. Where the method allows it, only what it
        needs is decoded; then its samples are not compared with a checksum. Raises RegionError (not within the image),
        UnsupportedImageError (an animation, or no image), and the errors of lookup.
        """
        group, part, image, decoded = self._find(name)
        if isinstance(part, Verbatim):
            raise UnsupportedImageError("the file was kept verbatim, not as an image")
        if region is not None and id(part) not in decoded:
            regions = {image: Region.of(region)}
            return conversion.array_of(decode_regions(part, regions, self._finder(group), self._max_pixels)[image])
        whole = conversion.lone_image(self._images(group, part, decoded)[image], self._max_pixels)
        part = whole if region is None else Region.of(region).cut(whole)
        return conversion.array_of(part).copy()  # the image is kept, and the caller may write into the array

    def kind(self, name: str) -> str:
        """`image` or `verbatim`. Nothing is decoded. Raises KeyError, CorruptError, UnsupportedImageError, OSError."""
        return "verbatim" if isinstance(self._find(name)[1], Verbatim) else "image"

    def member(self, name: str) -> Member:
        """A file's name in the archive, modification time and permissions. Raises the errors of `kind`."""
        return self._find(name)[0].members[self._places[name][1]]

    def __contains__(self, name: object) -> bool:
        """Whether the archive has a file of this name. Nothing is read."""
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of the archive."""
        return iter(self._places)

    def __len__(self) -> int:
        """The number of files."""
        return len(self._places)

    def __enter__(self) -> Archive:
        """The archive; `with` closes it."""
        return self

    def __exit__(self, *error) -> None:
        """Close the file."""
        self.close()

    def __reduce__(self):
        """Pickle the path, not the open file; raises TypeError for an archive opened in another way."""
        if self._recipe is None:
            raise TypeError("cannot pickle an archive that was not opened by its path")
        *arguments, salvage = self._recipe
        return functools.partial(Archive, salvage=salvage), tuple(arguments)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def group_sizes(self) -> list[tuple[int, int]]:
        """(bytes, number of files) of each group."""
        return [(place.length, len(place.names)) for _, place in self._groups]

    def names(self, number: int) -> list[str | None]:
        """The name of each member of a group; None: left out, because an earlier file has the name."""
        return self._names[number]

    @property
    def model_places(self) -> list[ModelPlace]:
        """The first copy of each model that the archive brings."""
        return [copies[0] for copies in self._models.values()]

    def models_of(self, group: ArchiveGroup) -> list[OwnModel]:
        """The models that the archive brings and a group needs; raises CorruptError (all copies are damaged),
        OSError."""
        return [self._model(each) for each in group.model_ids if each in self._models]

    def _finder(self, group: ArchiveGroup) -> FindProgram:
        """A function that finds the programs of a group."""
        return own_models.finder(self.models_of(group), self._find_program or zoo.find)

    def _model(self, model_id: bytes) -> OwnModel:
        if model_id not in self._loaded:
            copies = (load_model(self._bytes, place) for place in self._models[model_id])
            model = next((copy for copy in copies if copy), None)
            if model is None:
                raise CorruptError("the model of these files is damaged in the archive")
            self._loaded[model_id] = model
        return self._loaded[model_id]

    def group(self, number: int) -> ArchiveGroup:
        """Read a group by its number; raises OSError, CorruptError, UnsupportedImageError."""
        return load_group(self._bytes, *self._groups[number], self._max_pixels)

    def _find(self, name: str) -> tuple[ArchiveGroup, Group | Verbatim, int, dict[int, list]]:
        """(a file's group, its part of the group, its number in that, id of a part -> images that this thread has)"""
        number, member = self._places[name]
        if getattr(self._kept, "number", None) != number:
            self._kept.loaded, self._kept.number = (self.group(number), {}), number
        group, decoded = self._kept.loaded
        part, image = group.place(member)
        return group, group.parts[part], image, decoded

    def _images(self, group: ArchiveGroup, part: Group, decoded: dict[int, list]) -> list[Decoded]:
        if id(part) not in decoded:
            decoded[id(part)] = decode(part, self._finder(group), self._max_pixels)
        return decoded[id(part)]


_MOVED = Damage("its index gives wrong places for its groups", is_loss=False)


def _open(file: Positional, salvage: bool) -> list[Directory]:
    """The archives in a file. Raises FormatError, and without `salvage` CorruptError if a name may be lost."""
    if salvage:
        return _salvaged(file)
    start = file.read(0, len(START))
    if not is_archive(start):
        raise FormatError("not an archive")
    if start != START:
        version = start[len(MAGIC) :].hex() or "unknown"
        raise FormatError(f"archive of version {version}, but this release reads version {VERSION} only")
    return [read_index(file) or _rebuilt(file)]


def _salvaged(file: Positional) -> list[Directory]:
    """All archives in a file, with the groups that are whole. Raises FormatError: there are none."""
    directories = scan(file)
    if not directories:
        raise FormatError("not an archive, or no group of it is whole")
    first = directories[0]
    if len(directories) > 1:
        first.damage.append(Damage("several archives are joined in the file", is_loss=False))
    elif not first.damage:
        index = read_index(file)
        if index is None or index.places != first.places:
            first.damage.append(_MOVED)
    return directories


def _rebuilt(file: Positional) -> Directory:
    """The directory of an archive whose index is damaged, from its groups. Raises CorruptError: a name may be lost."""
    directories = scan(file)
    if len(directories) != 1:
        what = "several archives are joined in the file" if directories else "no group is whole"
        raise CorruptError(f"damaged archive: {what}")
    (directory,) = directories
    for each in directory.damage:
        if each.is_loss and not each.names:
            raise CorruptError(f"damaged archive: {each.what}")
    places = sorted(directory.places + directory.lost, key=lambda place: place.number)
    harmless = [each for each in directory.damage if not each.is_loss]
    return Directory(directory.archive_id, places, harmless or [_MOVED], models=directory.models)


def check(file: BinaryIO, names: Sequence[str], max_pixels: int) -> None:
    """Raise VerifyError unless the archive in a file has these files, in groups that are whole."""
    file.flush()
    try:
        packed = Archive(file, max_pixels=max_pixels)
        if packed.damage:
            raise CorruptError(packed.damage[0].what)
        for number in range(len(packed.group_sizes)):
            packed.group(number)
    except DqcodecError as error:
        raise VerifyError(f"the archive cannot be read back ({error}); nothing is written") from error
    if list(packed) != list(names):
        raise VerifyError("the archive has other files than were packed; nothing is written")
