"""An archive as a mapping: name -> the bytes of the file. The format is that of format/archive.py."""

from __future__ import annotations

import dataclasses
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO

from dqcodec.base.errors import CorruptError, FormatError
from dqcodec.codec import codec
from dqcodec.format.archive import MAGIC, START, VERSION, ArchiveGroup, Member, Verbatim, clashes, is_archive
from dqcodec.format.directory import Damage, Directory, Place, Positional, load_group, read_index, scan
from dqcodec.png import MAX_PIXELS

if TYPE_CHECKING:
    from dqcodec.exact.program import FindProgram


class Archive(Mapping[str, bytes]):
    """The files of an archive, name -> PNG file, or the bytes of a file kept verbatim, in the order of the archive; read and
    decoded when asked for.

    Any number of threads may read one archive at once, as may the processes that it is pickled to if it was opened by its path. Each
    thread keeps the group it read last, so that going through the files in order decodes each set of images once.

    An archive of which the index is damaged is read in full to find its groups. It opens if all names are known. With `salvage` it
    is always read in full, and opens with whatever is whole; several archives in one file become one, the names of
    the second below `archive-2/`, and so on. damage: what is wrong with the archive, as far as opening it told.

    Lookup raises KeyError, CorruptError where the file's group is damaged, and what codec.decode raises.
    """

    def __init__(
        self,
        file: str | os.PathLike | BinaryIO,
        find_program: FindProgram | None = None,
        max_pixels: int = MAX_PIXELS,
        *,
        salvage: bool = False,
    ):
        """find_program: by a model's id; None finds the models at hand. Raises OSError, FormatError, CorruptError."""
        is_path = isinstance(file, str | os.PathLike)
        self._recipe = (file, find_program, max_pixels, salvage) if is_path else None
        self._find_program, self._max_pixels = find_program, max_pixels
        self._file = open(file, "rb") if is_path else file
        try:
            self._bytes = Positional(self._file)
            self.damage: tuple[Damage, ...] = ()
            self._groups: list[tuple[bytes, Place]] = []
            self._names: list[list[str | None]] = []  # of each group, as this mapping has them; None for one left out
            self._list(_open(self._bytes, salvage), salvage)
        except BaseException:
            self.close()
            raise
        self._places = {
            name: (group, number) for group, names in enumerate(self._names) for number, name in enumerate(names) if name is not None
        }
        self._kept = threading.local()

    def _list(self, directories: list[Directory], salvage: bool) -> None:
        """Fill in groups and their names; raises CorruptError where two are the same, unless that is to be borne."""
        tops = {name.split("/")[0] for directory in directories for place in directory.places for name in place.names}
        folders = (f"archive-{number}" for number in itertools.count(2))
        for number, directory in enumerate(directories):
            folder = next(each for each in folders if each not in tops) + "/" if number else ""
            for place in directory.places:
                self._groups.append((directory.archive_id, place))
                self._names.append([folder + name for name in place.names])
            for each in directory.damage:
                self.damage += (dataclasses.replace(each, names=tuple(folder + name for name in each.names)),)
        places = [(group, member) for group, names in enumerate(self._names) for member in range(len(names))]
        clashing = [places[each] for each in sorted(clashes([self._names[group][member] for group, member in places]))]
        if clashing and not salvage:
            raise CorruptError("the archive has two files of one name")
        for group, member in clashing:
            name, self._names[group][member] = self._names[group][member], None
            self.damage += (Damage("another file of this name, or of its folder's, comes before it", (name,)),)

    def __getitem__(self, name: str) -> bytes:
        group_number, member = self._places[name]
        group, decoded = self._load(group_number)
        number, image = group.place(member)
        part = group.parts[number]
        if isinstance(part, Verbatim):
            return part.data
        if number not in decoded:
            decoded[number] = codec.decode(part, self._find_program or _find_at_hand(), self._max_pixels)
        return codec.restore(part.entries[image], decoded[number][image])

    def kind(self, name: str) -> str:
        """`image`, or `verbatim` for a file that is kept as it was; raises as lookup does, but decodes nothing."""
        group_number, member = self._places[name]
        group, _ = self._load(group_number)
        return "verbatim" if isinstance(group.parts[group.place(member)[0]], Verbatim) else "image"

    def member(self, name: str) -> Member:
        """A file's name in the archive, time and permissions; raises as `kind` does."""
        group_number, member = self._places[name]
        return self._load(group_number)[0].members[member]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def __reduce__(self):
        if self._recipe is None:
            raise TypeError("an archive that was not opened by its path cannot be pickled")
        return _reopen, self._recipe

    def close(self) -> None:
        self._file.close()

    @property
    def group_sizes(self) -> list[tuple[int, int]]:
        """(bytes, files) of each group."""
        return [(place.length, len(place.names)) for _, place in self._groups]

    def names(self, number: int) -> list[str | None]:
        """The name of each member of a group; None for one that is left out, since its name is another's."""
        return self._names[number]

    def group(self, number: int) -> ArchiveGroup:
        """A group; raises OSError, CorruptError, UnsupportedImageError."""
        return load_group(self._bytes, *self._groups[number], self._max_pixels)

    def _load(self, number: int) -> tuple[ArchiveGroup, dict[int, list]]:
        """A group, and the images of those of its parts that this thread has decoded."""
        if getattr(self._kept, "number", None) != number:
            self._kept.loaded, self._kept.number = (self.group(number), {}), number
        return self._kept.loaded


def _open(file: Positional, salvage: bool) -> list[Directory]:
    """The archives in a file; raises FormatError, and, unless `salvage`, CorruptError where a name may be lost."""
    if not salvage:
        start = file.read(0, len(START))
        if not is_archive(start):
            raise FormatError("not an archive")
        if start != START:
            version = start[len(MAGIC) :].hex() or "unknown"
            raise FormatError(f"archive of version {version}, but this release reads version {VERSION} only")
        directory = read_index(file)
        if directory:
            return [directory]
    directories = scan(file)
    if not directories:
        raise (FormatError if salvage else CorruptError)("damaged archive: nothing in it is whole")
    if len(directories) > 1:
        if not salvage:
            raise CorruptError("damaged archive: several are joined in it")
        return directories
    (directory,) = directories
    moved = Damage("its groups are not where its index has them", is_loss=False)
    if salvage:
        index = read_index(file)
        if not directory.damage and (index is None or index.places != directory.places):
            directory.damage.append(moved)
        return directories
    for each in directory.damage:
        if each.is_loss and not each.names:
            raise CorruptError(f"damaged archive: {each.what}")
    places = sorted(directory.places + directory.lost, key=lambda place: place.number)
    harmless = [each for each in directory.damage if not each.is_loss]
    return [Directory(directory.archive_id, places, harmless or [moved])]


def _reopen(file, find_program, max_pixels, salvage) -> Archive:
    return Archive(file, find_program, max_pixels, salvage=salvage)


def _find_at_hand() -> Callable:
    from dqcodec.codec import zoo

    return zoo.find
