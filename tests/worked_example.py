"""The worked example of docs/format.md: what the document's decoder meets in two tiny files.

cd tests && python worked_example.py      writes it into the document
"""

from pathlib import Path

import independent_decoder as decoder

DOCUMENT = Path(__file__).parents[1] / "docs/format.md"
GOLDEN = Path(__file__).parent / "golden"
BEGIN, END = "<!-- example -->\n", "<!-- end -->"
_PIXELS = 2  # that are shown in full


def section(text: str, begin: str = BEGIN) -> tuple[str, str, str]:
    """The document before, within and after a part between marks."""
    before, rest = text.split(begin)
    inside, after = rest.split(END, 1)
    return before + begin, inside, END + after


def example() -> str:
    """The section's text."""
    file = (GOLDEN / "tiny/example.dqc").read_bytes()
    model = (GOLDEN / "gray.safetensors").read_bytes()
    steps = trace_of(file, {file[9:17]: model})
    mixed = (GOLDEN / "tiny/example-mixing.dqc").read_bytes()
    mixed_steps = trace_of(mixed, {})
    pixels = rows(decoder.decode(file, {file[9:17]: model}).rasters[0][..., 0])
    return f"""The image `tests/golden/tiny/example.png`, 8-bit gray, 4 x 3:

{block(pixels)}

### Autoregressive

`tests/golden/tiny/example.dqc`, by the model `tests/golden/gray.safetensors`, whose description says 1 channel, 8 bits, tiles of 16 x 24,
F = 4 features, 1 block, K = 3 mixtures, head_grid 7, rate_bits 9; its layers have 12 outputs, its head H = 6.

{fields(file, _FIELDS)}

The fronts are the pixels (0,0) · (0,1) · (0,2) · (0,3) (1,0) · (1,1) · (1,2) · (1,3) (2,0) · (2,1) · (2,2) · (2,3). Each is
one chunk here. Names are those of section 9. `stack` are the words that [save](#7-the-stack) gives before a chunk, in hexadecimal; `weights after learning` are q[i, 0] of 9.5 for i = 0 ... H.

{block(in_full(steps, _PIXELS))}

And so on:

{block(in_short(steps))}

The stack ends as its seed:

{block(["stack = " + hexadecimal(steps[-1][1])])}

### Mixing

`tests/golden/tiny/example-mixing.dqc`, the same image:

{fields(mixed, _MIXED_FIELDS)}

The first samples. Hashes and slots are those of the contexts 0, 1 and 2, in hexadecimal; `low, high` are the coder's after a sample.

{block(mixed_in_full(mixed_steps))}

And so on:

{block(["samples = " + words(value[0] for name, value in mixed_steps if name == "sample, low, high")])}
"""


def trace_of(file: bytes, models: dict[bytes, bytes]) -> list[tuple[str, object]]:
    steps = []
    decoder.decode(
        file, models, lambda name, value: steps.append((name, list(value) if hasattr(value, "__len__") else value))
    )
    return steps


_FIELDS = (
    (4, "magic"), (1, "version"), (1, "kind: sample kind 4, no chunks, no recipe"), (1, "width"), (1, "height"),
    (1, "split: step 0, no alpha apart; first layer: method 3"), (8, "model id"), (8, "checksum"),
    (1, "payload: s, bytes of the seed"), (1, "length of the stack"), (None, "the stack"), (4, "CRC-32"),
)  # fmt: skip
_MIXED_FIELDS = (
    (4, "magic"), (1, "version"), (1, "kind"), (1, "width"), (1, "height"), (1, "split; first layer: method 4"), (8, "checksum"),
    (1, "payload: bits b of the layer"), (None, "the code"), (4, "CRC-32"),
)  # fmt: skip


def fields(file: bytes, names) -> str:
    """A table of the file's bytes."""
    rest = len(file) - sum(size for size, _ in names if size)
    lines, position = ["| at | bytes | field |", "|---|---|---|"], 0
    for size, name in names:
        size = size or rest
        lines.append(f"| {position} | `{file[position : position + size].hex(' ')}` | {name} |")
        position += size
    return "\n".join(lines)


def in_full(steps, pixels: int) -> list[str]:
    lines, seen = [], 0
    for name, value in steps:
        seen += name == "stack"
        if seen > pixels:
            break
        lines += [""] if name == "stack" and lines else []
        lines.append(f"{name} = " + (hexadecimal(value) if name == "stack" else words(value)))
    return lines


def in_short(steps) -> list[str]:
    """What is coded of the other pixels."""
    pixels = [value for name, value in steps if name == "pixel"]
    slots = [value for name, value in steps if name == "t"]
    found = [value for name, value in steps if name == "symbol, start, count"]
    return [
        f"pixel, t, symbol, start, count = {words([*pixel, t, *symbol])}"
        for pixel, t, symbol in list(zip(pixels, slots, found))[_PIXELS:]
    ]


def mixed_in_full(steps) -> list[str]:
    lines, samples = [], 0
    for name, value in steps:
        samples += name == "hash"
        if samples > 2:
            break
        lines += [""] if name == "hash" and lines else []
        lines.append(f"{name} = " + (hexadecimal(value) if name in ("hash", "slot") else words(value)))
    return lines


def block(lines) -> str:
    return "\n".join(["```", *lines, "```"])


def rows(pixels) -> list[str]:
    return [" ".join(f"{value:3}" for value in row) for row in pixels]


def words(values) -> str:
    return " ".join(str(int(value)) for value in (values if hasattr(values, "__iter__") else [values]))


def hexadecimal(values) -> str:
    return " ".join(f"{int(value):08x}" for value in values)


if __name__ == "__main__":
    before, _, after = section(DOCUMENT.read_text())
    DOCUMENT.write_text(before + example() + after)
