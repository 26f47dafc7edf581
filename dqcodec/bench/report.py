"""All rows of a run, and their totals."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dqcodec.bench.codecs import Codec, ModelParts
from dqcodec.bench.measure import Measured, Rates, Row
from dqcodec.bench.worker import Options

_WAITED = 0.9  # processor time / wall-clock time; below this, the machine was busy


@dataclass(frozen=True)
class ModelTotal(ModelParts):
    """The parts of all images that a model coded, bits per sample. bpd is their sum."""

    images: int
    bpd: float


@dataclass(frozen=True)
class Total(Rates):
    """The sums of a codec over the images that it coded losslessly.

    png_bytes: of the same images. threads: how many the codec could use.
    """

    codec: str
    title: str
    version: str
    threads: int
    images: int
    errors: int
    unsupported: int
    bytes: int
    png_bytes: int
    pixels: int
    dims: int
    encode_seconds: float | None
    decode_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    model: ModelTotal | None

    @property
    def waited(self) -> bool:
        """Whether the codec's process waited for other processes; then the measured speeds are too low."""
        return self.cpu_seconds < _WAITED * ((self.encode_seconds or 0.0) + self.decode_seconds)


@dataclass
class BenchReport:
    """The results and how they were measured. skipped: codecs that are not installed, one line each."""

    codecs: Sequence[Codec]
    options: Options
    machine: dict[str, Any]
    skipped: list[str]
    rows: list[Row] = dataclasses.field(default_factory=list)

    @property
    def totals(self) -> list[Total]:
        """One total for each codec."""
        return [_total(codec, self.options, self.rows) for codec in self.codecs]

    @property
    def images(self) -> int:
        """Number of measured images."""
        return len(self.rows) // max(1, len(self.codecs))

    @property
    def return_code(self) -> int:
        """Exit code: 0 all is well, 1 some failed, 3 nothing was measured."""
        if not any(row.measured for row in self.rows):
            return 3
        return 1 if any(row.error for row in self.rows) else 0

    def notes(self) -> list[str]:
        """The conditions of the measurement, one line each."""
        options, machine, totals = self.options, self.machine, self.totals
        threads = "one thread" if options.threads == 1 else f"at most {options.threads} threads"
        best = f", best of {options.repeat}" if options.repeat > 1 else ""
        notes = [
            f"{_images(self.images)}, {machine['date'][:10]}, {machine['processor']}, {machine['cores']} cores, "
            f"{' '.join(machine['instruction_sets'])}; {threads} a codec{best}.",
            "Every counted result was decoded and compared with the image.",
            "dqcodec and oxipng encode from the PNG file, the others from pixels; all decode to pixels. The check of "
            "dqcodec itself (`compress` decodes its result) is off.",
            "PNG, oxipng and dqcodec keep all metadata, WebP ICC profiles, Exif and XMP, JPEG XL Exif and XMP, the others "
            "none.",
            "Peak memory is that of the codec's whole process, with Python, libraries and models.",
        ]
        if len({total.images for total in totals}) > 1:
            notes.append("Not every codec coded every image: compare only codecs with the same number of images.")
        notes += [_unsupported_note(total.codec, self.rows) for total in totals if total.unsupported]
        if slow := [total.codec for total in totals if total.images and total.waited]:
            notes.append(f"The machine was busy with other work: speeds are too low for {', '.join(slow)}.")
        notes += [_model_note(total) for total in totals if total.model]
        return notes + self.skipped

    def _models(self) -> dict[str, str]:
        """File name -> id (hex) of dqcodec's models."""
        from dqcodec.exact.identity import file_id

        return {path.name: file_id(path).hex() for codec in self.codecs for path in codec.models}

    def failures(self) -> list[str]:
        """One line for each image and error, with the codecs that share it."""
        codecs: dict[tuple[str, str], list[str]] = {}
        for row in self.rows:
            if row.error:
                codecs.setdefault((row.image, row.error), []).append(row.codec)
        return [f"{image}: {', '.join(names)}: {error}" for (image, error), names in codecs.items()]

    def as_dict(self) -> dict[str, Any]:
        """The whole report, for JSON."""
        from dqcodec import __version__

        return {
            "dqcodec": __version__,
            "models": self._models(),
            "machine": self.machine,
            "options": dataclasses.asdict(self.options),
            "notes": self.notes(),
            "totals": [total.as_dict() for total in self.totals],
            "rows": [row.as_dict() for row in self.rows],
        }


def line(rows: Sequence[Row]) -> str:
    """`a.png bpd: dqcodec 3.09, png 4.35, qoi failed`, from the rows of one image."""
    return f"{rows[0].image} bpd: " + ", ".join(f"{row.codec} {_rate(row)}" for row in rows)


def _rate(row: Row) -> str:
    if row.measured is None:
        return "failed" if row.error else "n/a"
    return f"{row.measured.bpd:.3f}"


def _total(codec: Codec, options: Options, all_rows: Sequence[Row]) -> Total:
    rows = [row for row in all_rows if row.codec == codec.name]
    done = [row.measured for row in rows if row.measured]
    encodings = [each.encode for each in done if each.encode]
    timed = encodings + [each.decode for each in done]
    return Total(
        codec=codec.name,
        title=codec.title,
        version=codec.version(),
        threads=options.threads if codec.threaded else 1,
        images=len(done),
        errors=sum(row.error is not None for row in rows),
        unsupported=sum(row.unsupported is not None for row in rows),
        bytes=sum(each.bytes for each in done),
        png_bytes=sum(each.png_bytes for each in done),
        pixels=sum(each.pixels for each in done),
        dims=sum(each.dims for each in done),
        encode_seconds=sum(each.wall for each in encodings) if encodings else None,
        decode_seconds=sum(each.decode_seconds for each in done),
        cpu_seconds=sum(each.cpu for each in timed),
        peak_memory_bytes=max((each.peak_memory_bytes for each in done), default=0),
        model=_model_total([each for each in done if each.model]),
    )


def _model_total(done: Sequence[Measured]) -> ModelTotal | None:
    if not done:
        return None
    dims = sum(each.dims for each in done)
    parts = [field.name for field in dataclasses.fields(ModelParts)]
    sums = {part: sum(getattr(each.model, part) for each in done) / dims for part in parts}
    return ModelTotal(images=len(done), bpd=8 * sum(each.bytes for each in done) / dims, **sums)


def _unsupported_note(codec: str, rows: Sequence[Row]) -> str:
    """`qoi: n/a for 3 images: takes no 16-bit RGB`."""
    reasons = [row.unsupported for row in rows if row.codec == codec and row.unsupported]
    return f"{codec}: n/a for {_images(len(reasons))}: {', '.join(dict.fromkeys(reasons))}"


def _images(count: int) -> str:
    return f"{count} image" if count == 1 else f"{count} images"


def _model_note(total: Total) -> str:
    model = total.model
    parts = [f"{field.name} {getattr(model, field.name):.4f}" for field in dataclasses.fields(ModelParts)[1:]]
    return (
        f"{total.title}: a model coded {model.images} of {_images(total.images)}, at {model.bpd:.4f} bpd: "
        f"limit {model.limit:.4f} and {', '.join(parts)}."
    )
