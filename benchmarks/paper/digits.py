"""1-bit PNGs of digits that no model saw, by dqcodec with models, by dqcodec without models, and by other codecs.

    python benchmarks/mnist.py binarized_mnist_larochelle.npz -o mnist
    python benchmarks/paper/digits.py mnist

The first set is a sheet of 1000 digits in one image, the second 500 digits with a PNG each. dqcodec packs the second
set into one archive; the other codecs make one file for each image. Everything is decoded and compared. Results go to
mnist/digits.json.
"""

import argparse
import io
from collections.abc import Sequence
from pathlib import Path

from results import Results, json_option

from dqcodec.bench import images, peers
from dqcodec.bench.measure import file_bytes
from dqcodec.codec import codec, zoo
from dqcodec.exact.program import Program
from dqcodec.format import archive, archive_group
from dqcodec.format.archive_group import ArchiveGroup, Member

CODECS = ("png", "webp", "jxl-e9")


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    json_option(parser, "FOLDER/digits.json")
    arguments = parser.parse_args()
    sets = {"sheet": [arguments.folder / "sheet.png"], "archive": sorted((arguments.folder / "digits").glob("*.png"))}
    programs = [zoo.load(name) for name in zoo.names()]
    path = arguments.json or arguments.folder / "digits.json"
    path.unlink(missing_ok=True)
    results = Results(path)
    for name, paths in sets.items():
        ours = file if name == "sheet" else packed
        sources = [images.read(path) for path in paths]
        cell = {peer.name: file_bytes(peer, sources) for peer in peers.PEERS if peer.name in CODECS}
        cell["mixing"], _ = ours(paths, [])
        cell["dqcodec"], method = ours(paths, programs)
        results.add(
            name,
            {
                "images": len(paths),
                "dims": sum(source.pixels.size for source in sources),
                "method": method,
                "bytes": cell,
            },
        )
        print(name, results.cells[name], flush=True)


def file(paths: Sequence[Path], programs: Sequence[Program]) -> tuple[int, str]:
    """(bytes of the .dqc file of the only image, its method), verified."""
    dqc, report = codec.compress(paths[0].read_bytes(), programs)
    return len(dqc), f"{report.method}, {report.model}"


def packed(paths: Sequence[Path], programs: Sequence[Program]) -> tuple[int, str]:
    """(bytes of an archive with one group, its methods), verified."""
    sources = [codec.read(path.read_bytes()) for path in paths]
    coded, out = codec.encode(sources, programs), io.BytesIO()
    members = tuple(Member(path.name, path.stat().st_mtime_ns, path.stat().st_mode & 0o777) for path in paths)
    group = archive_group.pack_group(ArchiveGroup(members, tuple(range(len(paths))), (coded.group,)))
    codec.check(archive_group.unpack_group(group.header, group.body).parts[0], sources, coded.programs, 1 << 27)
    writer = archive.Writer(out)
    writer.add(group)
    writer.finish()
    methods = "+".join(sorted({entry.method for entry in coded.group.entries}))
    return len(out.getvalue()), ", ".join([methods, *(program.name for program in coded.programs)])


if __name__ == "__main__":
    main()
