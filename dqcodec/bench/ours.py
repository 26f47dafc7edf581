"""dqcodec as a codec under test."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from dqcodec import __version__
from dqcodec.base.threads import set_threads
from dqcodec.bench import images
from dqcodec.bench.codecs import Codec, Coded, ModelBits
from dqcodec.bench.images import Original
from dqcodec.codec import codec, zoo
from dqcodec.codec.effort import Effort
from dqcodec.codec.group import decode
from dqcodec.codec.report import CompressReport
from dqcodec.format.colors import colors
from dqcodec.format.container import Group
from dqcodec.png import Png, chunks, samples


class Dqcodec(Codec):
    """`dqcodec compress`, `compress --fast` or `compress --best`, with all models at hand or with one model (-m).

    Encoding starts from the PNG file. Decoding ends with pixels, as for the other codecs; no PNG is written.
    """

    threaded = True
    animates = True

    def __init__(self, model: str | None = None, **effort: bool):
        """Load the models once, to find errors early. effort: `fast` or `best`.

        Raises UnknownModelError: no model has this name; ModelError: a model file is malformed.
        """
        shown = Path(model).stem if model and model.endswith(zoo.SUFFIX) else model
        name, title = "-".join(["dqcodec", *effort]), " --".join(["dqcodec", *effort])
        self.name = f"{name}:{shown}" if model else name
        self.title = f"{title}, {shown} alone" if model else title
        self._effort = Effort.of(**effort)
        self.models = [zoo.locate(model).resolve()] if model else [path.resolve() for path in zoo.paths().values()]
        for path in self.models:
            zoo.load(str(path))

    def version(self) -> str:
        """The version of this package."""
        return __version__

    def prepare(self, threads: int) -> None:
        """Set the threads and load the models."""
        set_threads(threads)
        threadpool_limits(threads)
        self._programs = [zoo.load(str(path)) for path in self.models]

    def encode(self, source: Original) -> Coded:
        """Compress the PNG file, without verification."""
        data, report = codec.compress(source.data, self._programs, self._effort, verify=False)
        return Coded(data, report.method, _model_bits(report))

    def decode(self, data: bytes) -> np.ndarray:
        """The pixels of a .dqc file."""
        programs = {program.id: program for program in self._programs}
        (image,) = decode(Group.unpack(data), programs.__getitem__)
        if not isinstance(image, bytes) and len(image.rasters) > 1:
            image = _unpacked(image)
        return images.decode(image) if isinstance(image, bytes) else colors(image)


def _unpacked(image: Png) -> bytes:
    """The PNG file of an animation, without compression: making it small is not a part of decoding."""
    streams = []
    for raster in image.rasters:
        rows = samples.to_rows(raster, image.header, 0)
        plain = samples.filtered(rows, [np.zeros(len(part), np.uint8) for part in rows], image.header)
        streams.append(chunks.cut(zlib.compress(plain, 0)))
    return chunks.assemble(image.skeleton, streams)


def _model_bits(report: CompressReport) -> ModelBits | None:
    if report.learned is None:
        return None
    limit = report.learned["vi_bpd"] * report.dims
    parts = {
        "initial": report.learned["initial_bits"],
        "grids": report.learned["grid_bits"],
        "container": 8 * report.container_bytes,
        "metadata": 8 * (report.chunk_bytes + report.recipe_bytes),
    }
    other = 8 * report.dqc_bytes - limit - sum(parts.values())
    return ModelBits(model=report.model, limit=limit, **parts, other=other)
