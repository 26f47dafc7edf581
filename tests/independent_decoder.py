"""A decoder of .dqc files written from docs/format.md: the proof that the document is complete.

It imports nothing of dqcodec, is slow, and checks little of what a damaged file could hold. Names and numbers of
sections are those of the document. Integers are Python's or numpy's; f32 and f64 are numpy's.

    decode(file, models) -> Decoded                 models: model id -> bytes of the model file
    decode_archive(file, models) -> name -> Decoded
"""

import bisect
import copy
import hashlib
import io
import itertools
import json
import lzma
import math
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

DOCUMENT = (Path(__file__).parents[1] / "docs/format.md").read_text()
TABLE = Path(__file__).parents[1] / "dqcodec/frozen/trained_mixing.npz"


def part(name: str) -> str:
    """What stands between marks in the document."""
    return DOCUMENT.split(f"<!-- {name} -->\n")[1].split("<!-- end -->")[0]


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()]


def numbers(name: str) -> list[list[int]]:
    """The rows of a table that hold numbers, and nothing else of them."""
    rows = [[int(number) for number in re.findall(r"\b\d+\b", line)] for line in part(name).splitlines()]
    return [row for row in rows if row]


DICTIONARY = bytes.fromhex("".join(part("dictionary").replace("```", "").split()))
CURVE = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in (step / 1023 for step in range(1024))]
PROFILES = (
    bytes.fromhex("".join(part("profiles").replace("```", "").split()))
    + b"curv\0\0\0\0\0\0\4\0"
    + b"".join(struct.pack(">H", int(65535 * each + 0.5)) for each in CURVE)
    + bytes.fromhex(re.search(r"half\); then `(\w+)`", DOCUMENT)[1])
    + DICTIONARY
)
f32 = np.float32
Trace = Callable[[str, object], None]
Models = dict[bytes, "bytes | ChangedModel"]


@dataclass
class Decoded:
    """png: the file, of a stored image or by a recipe. rasters: their samples (H, W, C), none of a stored image.
    chunks: (type, body) before each raster and after the last."""

    png: bytes
    rasters: list[np.ndarray]
    chunks: list[list[tuple[bytes, bytes]]]


def decode(data: bytes, models: Models, trace: Trace = lambda name, value: None) -> Decoded:
    """trace is called with names and values of what stands in the worked example."""
    if data[:3] == b"\x89DQ" and not data[3] >> 6 & 1:
        body = Bytes(data[3:-4])
        head = read_heads(body, 1)
        check = zlib.crc32(data[:-4]) ^ int.from_bytes(data[-4:], "little")
        return decode_set(body, head, models, trace, check.to_bytes(4, "little"))[0]
    assert data[:5] == b"\x89DQC\1"
    assert zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little")
    body = Bytes(data[5:-4])
    return decode_set(body, read_heads(body, 1), models, trace)[0]


@dataclass
class Head:
    """What the head of an image that is not stored says. shapes: of its layers. repeats: how many images before it is
    the one whose samples it has, or 0."""

    size: tuple[int, int]
    color_type: int
    depth: int
    chunks: list[list[tuple[bytes, bytes]]]
    recipe: bytes
    step: int
    is_alpha: bool
    layers: list[tuple[int, bytes | None]]
    shapes: list[tuple[int, int, int]]
    repeats: int = 0
    view: "View | None" = None

    def spot(self, image, number):
        """14: the canvas of a layer, its width and height, left and top, dispose_op and blend_op."""
        count = len(self.chunks) - 1
        raster, place = divmod(number, len(self.layers) // count)
        controls = [body for kind, body in self.chunks[raster] if kind == b"fcTL"]
        _, _, *corner, disposal, blending = struct.unpack(">IIII4xBB", controls[0]) if controls else [0] * 6
        return (image, place), self.size, tuple(corner), disposal, blending


def read_heads(body: "Bytes", count: int) -> list[Head | None]:
    """None for a stored image."""
    heads, last_model = [], None
    for _ in range(count):
        kind = body.byte()
        if kind == 0:
            heads.append(None)
            continue
        color_type, depth = KINDS[(kind & 15) - 1]
        width, height = body.varint(), body.varint()
        packing = kind >> 4 & 3 | kind >> 7 << 2
        values, chunks = parse_chunks(unpack(body.section(), packing) if packing else b"")
        view = View(values, SAMPLES[color_type], depth) if values else None
        recipe = body.section() if kind >> 6 & 1 else b""
        split = body.byte()
        if split == 96:
            heads.append(Head((width, height), color_type, depth, chunks, recipe, 0, False, [], [], body.varint()))
            continue
        step, is_alpha, code = split & 7, bool(split >> 3 & 1), split >> 4
        has_alphas = any(kind == b"tRNS" for kind, _ in chunks[0])
        shapes = [
            (*size, channels)
            for size in sizes(height, width, chunks)
            for channels in layer_channels(view.channels if view else SAMPLES[color_type], step, is_alpha, has_alphas)
        ]
        layers = []
        for number in range(len(shapes)):
            code = body.byte() if number else code
            method, model = code if code in (8, 9, 12, 14) else code & 7, None
            if method in (2, 3, 5):
                model = last_model = last_model if code >> 3 else body.take(8)
            layers.append((method, model))
        heads.append(Head((width, height), color_type, depth, chunks, recipe, step, is_alpha, layers, shapes, 0, view))
    return heads


def decode_set(
    body: "Bytes", heads: list[Head | None], models: Models, trace: Trace, checksum: bytes | None = None
) -> list[Decoded]:
    """Images whose heads are read: checksum, unless it is given, and payloads."""
    checksum = checksum or (body.take(8) if any(heads) else b"")
    payloads = decode_payloads(body, heads, models, trace)
    decoded, digest = [], hashlib.sha256()
    for head, found in zip(heads, payloads):
        if head is None:
            decoded.append(Decoded(found, [], []))
            continue
        rasters = decoded[-head.repeats].rasters if head.repeats else join_layers(head, found)
        for raster in rasters:
            height, width, channels = raster.shape
            digest.update(varint(width) + varint(height) + varint(channels))
            digest.update(raster.astype(">u2" if head.depth == 16 else "u1").tobytes())
        file = packed_again(head, rasters[0]) if head.recipe else b""
        decoded.append(Decoded(file, rasters, head.chunks))
    assert digest.digest().startswith(checksum)
    return decoded


# --- 1, 2


class Bytes:
    """A reader."""

    def __init__(self, data: bytes):
        self.data, self.position = data, 0

    def take(self, count: int) -> bytes:
        part = self.data[self.position : self.position + count]
        assert len(part) == count
        self.position += count
        return part

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def section(self) -> bytes:
        return self.take(self.varint())

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.position)


def varint(value: int) -> bytes:
    out = []
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


KINDS = list(zip(*numbers("kinds")[1:]))
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def decode_payloads(body, heads, models, trace):
    """For each image its file, if it is stored, or the arrays of its layers."""
    alone, together = [], {}
    for image, head in enumerate(heads):
        if head is None:
            alone.append([(image, 0)])
            continue
        for number, ((method, model), shape) in enumerate(zip(head.layers, head.shapes)):
            if method == 1:
                alone.append([(image, number)])
            else:
                together.setdefault((method, model or shape[2]), []).append((image, number))
    companies = [*alone, *together.values()]
    payloads = [body.section() for _ in companies[1:]]
    payloads.append(body.rest())
    found = [head and [None] * len(head.layers) for head in heads]
    for payload, company in zip(payloads, companies):
        image, number = company[0]
        if heads[image] is None:
            found[image] = payload
            continue
        (method, model), shapes = heads[image].layers[number], [heads[i].shapes[n] for i, n in company]
        if method == 1:
            decoded = [classical(payload, shapes[0])]
        elif method == 4:
            decoded = mixing(payload, shapes, trace)
        elif method in (7, 14):
            decoded = pixel_mixing(payload, shapes, is_trained=method == 14)
        elif method == 8:
            decoded = experts(payload, shapes)
        elif method == 9:
            decoded = animation(payload, shapes, [heads[i].spot(i, n) for i, n in company])
        elif method == 12:
            decoded = jpeg(payload, shapes)
        elif method == 2:
            decoded = flow(payload, shapes, Model(models[model]))
        elif method == 3:
            decoded = autoregressive(payload, shapes, Model(models[model]), trace)
        else:
            decoded = model_mixing(payload, shapes, Model(models[model]))
        for (image, number), array in zip(company, decoded):
            found[image][number] = array
    return found


# --- 3


def unpack(section: bytes, packing: int) -> bytes:
    if packing == 1:
        return section
    inner = Bytes(section)
    length = inner.varint()
    if packing in (2, 4):
        raw = zlib.decompressobj(-15, DICTIONARY if packing == 2 else PROFILES).decompress(inner.rest())
    else:
        filters = [{"id": lzma.FILTER_LZMA1, "lc": 3, "lp": 0, "pb": 0, "dict_size": 1 << 20}]
        raw = lzma.decompress(inner.rest(), lzma.FORMAT_RAW, filters=filters)
    assert len(raw) == length
    return raw


TABLES = [cells(table) for table in part("types").strip().split("\n\n")]
WHOLE = {
    int(code): (
        kind.encode(),
        b"".join(text.encode() or bytes.fromhex(digits) for text, digits in re.findall(r'"([^"]+)"|([0-9a-f]+)', body)),
    )
    for code, kind, body in cells(part("whole"))[2:]
}
USUAL = [pair for _, _, types, lengths in TABLES for pair in zip(types[1:], lengths[1:])]


def parse_chunks(raw: bytes) -> tuple[bytes, list[list[tuple[bytes, bytes]]]]:
    """The values, and the chunks before, between and after the rasters. The tail is a chunk of no type, the last one."""
    parts, items, values = [[]], Bytes(raw), b""
    if raw[:1] == b"\x7e":
        items.byte()
        values = items.section()
    while items.position < len(raw):
        code = items.byte()
        if code == 0:
            parts.append([])
            continue
        if code == 124:
            parts += [[]] * (len(parts) < 2)
            parts[-1].append((b"", items.section()))
            assert items.position == len(raw)
            break
        is_inflated = code == 125
        code = items.byte() if is_inflated else code
        if not is_inflated and code in WHOLE:
            parts[-1].append(WHOLE[code])
            continue
        kind, length = USUAL[(code & 127) - 1] if code & 127 < 127 else (items.take(4).decode(), 0)
        kind, length = kind.encode(), int(length)
        if code >> 7:
            length = items.varint()
        body = items.take(length)
        parts[-1].append((kind, deflated(Bytes(body)) if is_inflated else body))
    return values, parts if len(parts) > 1 else [*parts, []]


def deflated(form):
    """The body of an inflated chunk."""
    level, header, beginning = form.byte(), form.take(2), form.section()
    content = form.rest()
    if level >> 7:
        name, data = content.split(b"\n", 1)
        lines = [data[start : start + 36].hex() + "\n" for start in range(0, len(data), 36)]
        content = b"\n" + name + f"\n{len(data):8}\n".encode() + "".join(lines).encode()
    stream = zlib.compressobj(level & 15, zlib.DEFLATED, -(8 + (header[0] >> 4)), 8, zlib.Z_DEFAULT_STRATEGY)
    return beginning + header + stream.compress(content) + stream.flush() + zlib.adler32(content).to_bytes(4, "big")


def sizes(height, width, chunks):
    found = [(height, width)]
    for part in chunks[1:-1]:
        (control,) = (body for kind, body in part if kind == b"fcTL")
        found.append(struct.unpack(">II", control[:8])[::-1])
    return found


# --- 4, 5


class View:
    """channels: of the view."""

    def __init__(self, values: bytes, channels: int, depth: int):
        code = Bytes(values)
        modes = code.byte() | code.byte() << 8
        self.is_merged, self.modes, self.depth = bool(modes >> 12), [modes >> 3 * c & 7 for c in range(channels)], depth
        kept = self.modes.count(0)
        self.tables = [self.table(code, each) for each in ([kept] if self.is_merged else [1] * self.modes.count(5))]
        assert code.position == len(values)
        self.channels = 1 if self.is_merged else kept + sum(len(table) > 1 for table in self.tables)

    def table(self, code, channels):
        count, columns = code.varint(), []
        for _ in range(channels):
            differences = code.take(count)
            if self.depth == 16:
                differences = [256 * high + low for high, low in zip(differences, code.take(count))]
            columns.append([sum(differences[: n + 1]) % (1 << max(8, self.depth)) for n in range(count)])
        return list(zip(*columns))

    def samples(self, raster):
        """Those of the PNG."""
        height, width, _ = raster.shape
        out = np.zeros((height, width, len(self.modes)), np.int64)
        tables, of_view = iter(self.tables), iter(np.moveaxis(raster, 2, 0))
        merged = iter(np.moveaxis(np.array(self.tables[0])[raster[..., 0]], 2, 0)) if self.is_merged else of_view
        for c, mode in enumerate(self.modes):
            if mode == 0:
                out[..., c] = next(merged)
            elif mode == 5:
                entries = np.array(next(tables))[:, 0]
                out[..., c] = entries[next(of_view)] if len(entries) > 1 else entries[0]
            elif mode > 5:
                out[..., c] = (1 << self.depth) - 1 if mode == 7 else 0
            else:
                out[..., c] = out[..., mode - 1]
        return out


def layer_channels(samples, step, is_alpha, is_transparent):
    if step == 5:
        return [2]
    channels = (4 if is_transparent else 3) if step == 4 else samples
    return ([channels - 1, 1] if is_alpha else [channels]) * (2 if step in (2, 3) else 1)


def join_layers(head, arrays):
    """The rasters of an image."""
    per_raster = len(arrays) // (len(head.chunks) - 1)
    groups = [arrays[start : start + per_raster] for start in range(0, len(arrays), per_raster)]
    if head.is_alpha:
        groups = [[np.concatenate(pair, 2) for pair in zip(group[::2], group[1::2])] for group in groups]
    if head.step == 4:
        return palette([group[0] for group in groups], head.chunks)
    rasters = [join(head.step, group) for group in groups]
    return [head.view.samples(raster) for raster in rasters] if head.view else rasters


def join(step, arrays):
    if step in (0, 6):
        return arrays[0]
    if step == 1:
        return arrays[0].astype(np.int64) * 257
    if step == 5:
        return arrays[0].astype(np.int64) @ np.array([[1], [256]])
    samples = arrays[0].astype(np.int64) * 256 + arrays[1]
    if step == 2:
        return samples
    height, width, channels = samples.shape
    for y in range(height):
        for x in range(width):
            for c in range(channels):
                code = int(samples[y, x, c])
                value = code // 2 if code % 2 == 0 else 65535 - (code - 1) // 2
                left = int(samples[y, x - 1, c]) if x else 0
                up = int(samples[y - 1, x, c]) if y else 0
                corner = int(samples[y - 1, x - 1, c]) if x and y else 0
                foretold = max(min(left, up), min(max(left, up), left + up - corner))
                samples[y, x, c] = (value + foretold) % 65536
    if channels >= 3:
        samples[..., [0, 2]] = (samples[..., [0, 2]] + samples[..., 1:2]) % 65536
    return samples


def palette(rasters, chunks):
    """The indices; the table is set in the chunks."""
    bodies = dict(reversed(chunks[0]))
    flat = [tuple(map(int, color)) for raster in rasters for color in raster.reshape(-1, raster.shape[2])]
    first, number = {}, {}
    for place, color in enumerate(flat):
        first.setdefault(color, place)
        number[color] = number.get(color, 0) + 1

    def key(color):
        return sum(value << 8 * channel for channel, value in enumerate(color))

    orders = [
        lambda color: first[color],
        key,
        lambda color: (-number[color], first[color]),
        lambda color: (color[0] * 299 + color[1] * 587 + color[2] * 114 << 32) + key(color),
        lambda color: (color[3:], color[:3]),
    ]
    depth = rasters[0].shape[2]
    table = ordered_table(bodies[b"PLTE"], first, orders, depth) if bodies[b"PLTE"] else sorted(first, key=orders[0])
    bodies = {b"PLTE": b"".join(bytes(color[:3]) for color in table)}
    if depth == 4:
        count, alphas = dict(reversed(chunks[0]))[b"tRNS"], bytes(color[3] for color in table)
        bodies[b"tRNS"] = alphas[: Bytes(count).varint()] if count else alphas.rstrip(b"\xff")
    chunks[0] = [(kind, bodies.get(kind, body)) for kind, body in chunks[0]]
    index = {color: place for place, color in reversed(list(enumerate(table)))}
    return [
        np.array([[[index[tuple(map(int, color))]] for color in row] for row in raster], np.int64) for raster in rasters
    ]


def ordered_table(body, first, orders, depth):
    """The table of a palette whose code is not empty."""
    code = Bytes(body)
    count, order = code.varint(), code.byte()
    left = sorted(first, key=orders[order])
    missing = count - len(left)
    unused = [tuple(code.take(depth)) for _ in range(missing)]
    places, start, table = int.from_bytes(code.rest(), "little"), 0, []
    for _ in range(count):
        places, digit = divmod(places, len(left) + (missing > 0))
        if digit < len(left):
            start = (start + digit) % len(left)
            table.append(left.pop(start))
        else:
            table.append(unused.pop(0))
            missing -= 1
    assert places == 0
    return table


# --- 6


def classical(payload: bytes, shape):
    if payload[0] == 0:
        return np.frombuffer(payload, np.uint8, offset=1).reshape(shape)
    body, pixels = Bytes(payload[1:]), np.empty(shape, np.uint8)
    height, width, channels = shape
    corners = [(top, left) for top in range(0, height, 2048) for left in range(0, width, 2048)]
    for top, left in corners:
        rows, columns = min(2048, height - top), min(2048, width - left)
        stream = body.rest() if (top, left) == corners[-1] else body.take(int.from_bytes(body.take(4), "little"))
        n = len(stream) + 5
        size = columns - 1 | rows - 1 << 14 | (channels in (2, 4)) << 28
        webp = b"RIFF" + struct.pack("<I", 12 + n + n % 2) + b"WEBPVP8L" + struct.pack("<I", n) + b"\x2f"
        webp += struct.pack("<I", size) + stream + bytes(n % 2)
        block = np.asarray(Image.open(io.BytesIO(webp)).convert("RGBA"))
        kept = {1: [0], 2: [0, 3], 3: [0, 1, 2], 4: [0, 1, 2, 3]}[channels]
        pixels[top : top + rows, left : left + columns] = block[..., kept]
    return pixels


# --- 7


class Stack:
    """Of bits."""

    def __init__(self, data: bytes):
        self.words = [int(word) for word in np.frombuffer(data, "<u4")]
        assert len(self.words) >= 2 and self.words[-1]
        self.state = self.words.pop() << 32
        self.state |= self.words.pop()

    def save(self) -> list[int]:
        words = [*self.words, self.state & 0xFFFFFFFF, self.state >> 32]
        return words if words[-1] else words[:-1]

    def push(self, symbols, sizes) -> None:
        for symbol, size in reversed(list(zip(map(int, symbols), map(int, sizes), strict=True))):
            if size > 1:
                begin, part = self._part(symbol, size)
                if self.state >> 40 >= part:
                    self.words.append(self.state & 0xFFFFFFFF)
                    self.state >>= 32
                self.state = (self.state // part << 24) + begin + self.state % part

    def pop(self, sizes) -> list[int]:
        return [self._pop(int(size)) for size in sizes]

    def _pop(self, size: int) -> int:
        if size == 1:
            return 0
        t = self.state % (1 << 24)
        symbol = min(t // ((1 << 24) // size), size - 1)
        begin, part = self._part(symbol, size)
        self.state = part * (self.state >> 24) + t - begin
        if self.state < 1 << 32 and self.words:
            self.state = self.state << 32 | self.words.pop()
        assert self.state >= 1 << 32 or self.words
        return symbol

    @staticmethod
    def _part(symbol, size):
        part = (1 << 24) // size
        return symbol * part, part if symbol < size - 1 else (1 << 24) - (size - 1) * part

    def fine_push(self, symbols, sizes) -> None:
        totals, lows, counts = zip(*(shares(symbol, size) for symbol, size in zip(symbols, sizes)))
        rest = self.pop(counts)
        self.push([low + r for low, r in zip(lows, rest)], totals)

    def check_seed(self, seed: bytes) -> None:
        padded = seed + bytes(-len(seed) % 4 if seed else 4)
        assert self.save() == [*map(int, np.frombuffer(padded, "<u4")), 1]


def shares(symbol, size):
    total = 1 << 11
    while total >> 11 <= size and total < 1 << 23:
        total *= 2
    low = -(-symbol * total // size)
    return total, low, -(-(symbol + 1) * total // size) - low


# --- 8


@dataclass
class ChangedModel:
    """A model of an archive: a base, a model file, and changes to it."""

    base: bytes
    changes: bytes


class Model:
    """A model file."""

    TYPES = {
        "I8": "<i1",
        "U8": "<u1",
        "I16": "<i2",
        "U16": "<u2",
        "I32": "<i4",
        "U32": "<u4",
        "I64": "<i8",
        "U64": "<u8",
    }

    def __init__(self, data: "bytes | ChangedModel"):
        changed = data if isinstance(data, ChangedModel) else None
        data = changed.base if changed else data
        length = int.from_bytes(data[:8], "little")
        header, data = json.loads(data[8 : 8 + length]), data[8 + length :]
        self.description = json.loads(header.pop("__metadata__")["dqcodec"])
        self.tensors = {
            name: np.frombuffer(data[slice(*entry["data_offsets"])], self.TYPES[entry["dtype"]])
            .reshape(entry["shape"])
            .astype(np.int64)
            for name, entry in header.items()
        }
        if changed:
            self.change(Bytes(changed.changes))

    def change(self, changes: "Bytes") -> None:
        """Section 17: models."""
        layers = ["features", "in", *(f"{block}.{half}" for block in range(self.blocks) for half in (1, 2)), "heads"]
        layers += [f"known.{plane}" for plane in range(1, self.channels)] + [
            f"out.{plane}" for plane in range(self.channels)
        ]
        head, of_heads = len(self.tensors["net.heads.shift"]) // self.channels, []

        def lower(a, d):
            return (a + ((1 << d) >> 1)) >> d

        for name in layers:
            weight, bias, shift = (self.tensors[f"net.{name}.{part}"] for part in ("weight", "bias", "shift"))
            plane = int(name[6:]) if name.startswith("known") else 0
            drop = of_heads[plane * head : (plane + 1) * head] if plane else [changes.varint() for _ in shift]
            of_heads = drop if name == "heads" else of_heads
            steps = [changes.varint() for _ in shift]
            for o, d in enumerate(drop):
                assert d <= 16 and steps[o] <= 24 and shift[o] > d
                for i in range(weight.shape[1]):
                    weight[o, i] = lower(weight[o, i], d) + (signed(changes.varint()) << steps[o])
            bias_steps = [] if plane else [changes.varint() for _ in shift]
            for o, d in enumerate(drop):
                rest = lower(bias[o] - (1 << shift[o] - 1), d)
                shift[o] -= d
                bias[o] = 0 if plane else rest + (signed(changes.varint()) << bias_steps[o]) + (1 << shift[o] - 1)
        assert not changes.rest()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self.description[name]

    def sums(self, name: str, a, bias=True):
        """S and shift of a layer (O, I) of rows a (..., I)."""
        weight = self.tensors[f"{name}.weight"]
        return a @ weight.T + bias * self.tensors[f"{name}.bias"], self.tensors[f"{name}.shift"]


def rounded(sums, bound):
    s, shift = sums
    return np.clip(s >> shift, -bound, bound)


def activated(sums, bound):
    s, shift = sums
    return np.clip(np.where(s >= 0, s >> shift, s >> shift + 3), -bound, bound)


def leaky(a):
    return np.where(a >= 0, a, np.rint(a / 8).astype(np.int64))


# --- 9


def cut(shapes, model):
    """9.1: the tiles of each stack as (layer, top, left, height, width)."""
    rows, columns = model.tile
    rows = min(max((1 << 20) // columns, 1), rows)
    stacks, pixels = [[]], 0
    for number, (height, width, _) in enumerate(shapes):
        for top in range(0, height, rows):
            for left in range(0, width, columns):
                h, w = min(rows, height - top), min(columns, width - left)
                if stacks[-1] and pixels + h * w > 1 << 20:
                    stacks.append([])
                    pixels = 0
                stacks[-1].append((number, top, left, h, w))
                pixels += h * w
    return stacks


def fronts_of(tiles):
    """9.2: each front as a list of (tile, y, x)."""
    batches, batch = [], []
    for number, (*_, h, w) in enumerate(tiles):
        batch.append((number, h, w))
        if (
            sum(h * w for _, h, w in batch) >= 512 * max(w + 3 * (h - 1) for _, h, w in batch)
            or number == len(tiles) - 1
        ):
            batches.append(batch)
            batch = []
    fronts = []
    for batch in batches:
        found = {}
        for number, h, w in batch:
            for y in range(h):
                for x in range(w):
                    found.setdefault(x + 3 * y, []).append((number, y, x))
        fronts += [found[turn] for turn in sorted(found)]
    return fronts


def chunks_of(fronts, number, bits):
    """9.2: slices of a front, in the order of decoding."""
    front, coded, chunks = fronts[number], sum(map(len, fronts[number + 1 :])), []
    end, largest = len(front), 32 if bits < 8 else 1 << 60
    while end > 0:
        size = max(2, min(largest, coded // (128 // bits)))
        chunks.append((max(0, end - size), end))
        coded += end - chunks[-1][0]
        end = chunks[-1][0]
    return chunks[::-1]


NEIGHBOURS = [tuple(map(int, pair)) for pair in re.findall(r"\((\d),(-?\d)\)", part("neighbours"))]
FEATURE_PLACES = [(0, -1), (0, -2), (1, -1), (1, 0), (1, 1), (2, 0)]


def standard(value, mean, spread):
    freed = f32(8 * value - mean) * (f32(256) / f32(spread))
    return int(min(max(np.floor(freed + f32(0.5)), -256), 256))


def log_spread(spread):
    k = spread.bit_length() - 1
    return 32 * (k - 7) + (32 * spread >> k)


class Walk:
    """The model on the tiles of one stack."""

    def __init__(self, model: Model, tiles, trace: Trace = lambda name, value: None):
        model = copy.deepcopy(model)  # its layers may learn
        self.model, self.tiles, self.trace = model, tiles, trace
        self.P, self.K = model.channels, model.mixtures
        self.symbols = 1 << model.bits
        self.planes = [np.zeros((h, w, self.P), np.int64) for *_, h, w in tiles]
        self.features = [np.zeros((h, w, model.features), np.int64) for *_, h, w in tiles]
        self.level = int(model.tensors["net.level"])
        self.learner = [Learner.of_last(model, plane) for plane in range(self.P)]
        self.net_learner, self.untaught = NetLearner(model), 0
        self.predicts = model.description.get("least_squares", False)
        if self.predicts:
            self.regressions = [[Regression(h, w, p) for p in range(self.P)] for *_, h, w in tiles]
        self.errors = [np.zeros_like(plane) for plane in self.planes]
        self.d1 = self.d2 = np.float64(1)

    def start(self, places):
        """What a front's or chunk's pixels have before their planes."""
        return [Pixel(self, *place) for place in places]

    def enter(self, pixels):
        for pixel in pixels:
            self.planes[pixel.tile][pixel.y, pixel.x] = pixel.values
            self.errors[pixel.tile][pixel.y, pixel.x] = pixel.errors
            own = [*pixel.inputs[: self.P * 19 + 2], *pixel.standards]
            told = activated(self.model.sums("net.features", np.array(own)), 256)
            self.features[pixel.tile][pixel.y, pixel.x] = told
            self.trace("features", told)
            self.net_learner.teach(pixel)
            self.untaught += 1

    def learn(self):
        self.d1 *= np.float64(0.9)
        self.d2 *= np.float64(0.99)
        for learner in self.learner:
            learner.step(1 - self.d1, 1 - self.d2)
        if self.untaught >= 256:
            self.net_learner.step()
            self.untaught = 0
        self.trace("weights after learning", self.learner[0].q[:, 0])

    def arrays(self):
        out = []
        for planes in self.planes:
            if self.P == 3:
                g = planes[..., 0]
                planes = np.stack([planes[..., 1] + g, g, planes[..., 2] + g], -1)
            out.append(planes.astype(np.uint8))
        return out


class Context:
    """9.4 and 9.9 for one pixel."""

    def __init__(self, walk: Walk, tile: int, y: int, x: int):
        self.walk, self.tile, self.y, self.x = walk, tile, y, x
        self.values, self.standards, self.errors = [], [], []
        planes, P, M = walk.planes[tile], walk.P, walk.symbols
        width = planes.shape[1]
        places = [(y - min(u, y), min(max(x + r, 0), width - 1)) for u, r in NEIGHBOURS]
        if x == 0:
            places = [((y - 1, 0) if y else None) if u == 0 else place for place, (u, _) in zip(places, NEIGHBOURS)]
        if y == 0:
            places = [places[0] if u > 0 else place for place, (u, _) in zip(places, NEIGHBOURS)]
        v = [[int(planes[place][p]) if place else (M // 2 if p == 0 else 0) for p in range(P)] for place in places]
        self.moments, inputs = [], []
        for p in range(P):
            w = (2, 2, 1, 1, 1, 1)
            mean = sum(w[i] * v[i][p] for i in range(6))
            self.moments.append((mean, 32 + sum(w[i] * abs(8 * v[i][p] - mean) for i in range(6))))
        inputs += [standard(v[i][p], *self.moments[p]) for i in range(17) for p in range(P)]
        inputs += [log_spread(spread) for _, spread in self.moments]
        for p, (mean, _) in enumerate(self.moments):
            level = math.floor((mean - 4 * M) * 2.0 ** (8 - walk.model.bits) / 16) if p == 0 else mean
            inputs.append(min(max(level, -256), 256))
        inputs += [32 * (y == 0), 32 * (x == 0)]
        features = walk.features[tile]
        for u, r in FEATURE_PLACES:
            inside = u <= y and 0 <= x + r < width
            inputs += [int(f) for f in features[y - u, x + r]] if inside else [0] * features.shape[2]
        self.v, self.centers = v, [8 * mean for mean, _ in self.moments]
        if walk.predicts:
            errors = [walk.errors[tile][place] if place else [0] * P for place in places[:6]]
            totals = [128 + sum(w[i] * int(errors[i][p]) for i in range(6)) for p in range(P)]
            self.log_errors = [log_spread(total) - 96 for total in totals]
            self.weights = [regression.weights(y, x) for regression in walk.regressions[tile]]
            for p in range(P):
                inputs += self.predict(0) if p == 0 else self.seen_errors(p)
        self.inputs = inputs
        walk.trace("pixel", (y, x))
        walk.trace("neighbours", [value[0] for value in v])
        walk.trace("mean, spread", self.moments[0])
        walk.trace("inputs", inputs)

    def seen_errors(self, p: int) -> list[int]:
        """9.9: the values 2 and 3 of what the network sees."""
        log_error = self.log_errors[p]
        return [min(max(each, -256), 256) for each in (log_error, log_error - log_spread(self.moments[p][1]))]

    def regressors(self, p: int) -> list[np.float32]:
        mean, _ = self.moments[p]
        west, north = self.v[:2]
        r = [f32(8 * self.v[i][p] - mean) / f32(8) for i in range(5)]
        for k in range(p):
            r += [f32(2 * self.values[k] - west[k] - north[k]) / f32(2), f32(west[k] - north[k]) / f32(2)]
        return r

    def predict(self, p: int) -> list[int]:
        """9.9: set the prediction of plane p -> what the network sees."""
        M, (mean, spread), total = self.walk.symbols, self.moments[p], f32(0)
        for r, c in zip(self.regressors(p), self.weights[p], strict=True):
            total = total + r * c
        prediction = np.floor((total + f32(mean) * f32(1 / 8)) * f32(64) + f32(0.5))
        prediction = self.centers[p] = int(min(max(prediction, 64 * (1 - M if p else 0)), 64 * (M - 1)))
        freed = (f32(prediction) * f32(1 / 8) - f32(mean)) * (f32(256) / f32(spread))
        a = int(min(max(np.floor(freed + f32(0.5)), -256), 256))
        return [a, min(max(a, -32), 32), *self.seen_errors(p)]

    def set(self, p: int, value: int) -> None:
        """The value of plane p is known."""
        mean, spread = self.moments[p]
        if self.walk.predicts:
            target, gain = f32(8 * value - mean) / f32(8), f32(64) / f32(spread)
            self.walk.regressions[self.tile][p].give(self.y, self.x, self.regressors(p), target, gain)
        self.errors.append(abs(64 * value - self.centers[p]))
        self.values.append(value)
        self.standards.append(standard(value, mean, spread))


class Pixel(Context):
    """9.5 to 9.7 for one pixel."""

    def __init__(self, walk: Walk, *place: int):
        super().__init__(walk, *place)
        self.known, self.offset, self.of_heads, self.hidden = [], 0, [], []
        model, level = walk.model, walk.level
        h = rounded(model.sums("net.in", np.array(self.inputs)), level)
        for b in range(model.blocks):
            inner = activated(model.sums(f"net.{b}.1", leaky(h)), level)
            self.hidden += [leaky(h), inner]
            h = np.clip(h + rounded(model.sums(f"net.{b}.2", inner), level), -level, level)
        self.h = h
        self.hidden.append(leaky(h))
        self.sums, self.shift = model.sums("net.heads", leaky(h))
        walk.trace("h", h)
        walk.trace("S", self.sums)

    def law(self, p: int) -> "Law":
        walk = self.walk
        model, K, H = walk.model, walk.K, len(self.sums) // walk.P
        known = self.known + (self.predict(p) if walk.predicts and p else [])
        part = self.sums[p * H : (p + 1) * H]
        if p:
            part = part + model.sums(f"net.known.{p}", np.array(known), bias=False)[0]
        head = np.append(activated((part, self.shift[p * H : (p + 1) * H]), walk.level), 1)
        learner = walk.learner[p]
        bound = np.repeat([1 << 20, 4096, 1 << 14], K)
        out = np.clip((head @ learner.q) >> learner.shift, -bound, bound)
        walk.trace("head", head)
        walk.trace("out", out)
        spread = self.moments[p][1]
        law = Law(model, head, [int(o) for o in out], self.centers[p], spread, self.offset, walk.symbols, walk.trace)
        law.known = known if p else []
        return law

    def learn(self, p: int, law: "Law", symbol: int) -> None:
        """The symbol of plane p is known."""
        gradients = law.gradients(symbol)
        self.walk.trace("g", gradients)
        learner = self.walk.learner[p]
        if self.walk.net_learner.lessons:
            back = (learner.q[:-1] * learner.quantum) @ (gradients / np.repeat([32.0, 256.0, 32.0], self.walk.K))
            scale = 2.0 ** self.walk.net_learner.lessons[0][0]
            self.of_heads.append((small(slope(law.head[:-1]) * f32(back * scale)), law.known))
        learner.taught += np.outer(law.head, gradients)
        self.set(p, symbol - self.offset)
        self.known += [self.standards[-1], min(max(self.standards[-1], -32), 32)]
        if p == 0:
            self.offset = symbol


class Law:
    """9.6 and 9.7."""

    def __init__(self, model, head, out, center, spread, offset, M, trace):
        K = model.mixtures
        weight, inverse_scale = model.tensors["mixture.weight"], model.tensors["mixture.inverse_scale"]
        self.sigmoid, self.head, self.M, self.spread = model.tensors["mixture.sigmoid"], head, M, spread
        a = [int(weight[min(max(out[:K]) - o, 512)]) for o in out[:K]]
        self.share = [each * ((1 << 14) - max(1, M >> 5)) // sum(a) for each in a]
        self.mean = [min(max((o * spread >> 8) + center + 64 * offset + 32, -20480), 36864) for o in out[K : 2 * K]]
        self.inverse = [int(inverse_scale[min(max(o + log_spread(spread) + 128, 0), 352)]) for o in out[2 * K :]]
        trace("share", self.share)
        trace("mean", self.mean)
        trace("inverse", self.inverse)

    def cell(self, k, x):
        return (64 * x - self.mean[k]) * self.inverse[k] >> 9

    def mass(self, k, x):
        if x in (0, self.M):
            return 65536 if x else 0
        return int(self.sigmoid[min(max(self.cell(k, x), -4096), 4095) + 4096])

    def start(self, x):
        if x in (0, self.M):
            return 1 << 19 if x else 0
        return (sum(share * self.mass(k, x) for k, share in enumerate(self.share)) >> 11) + x

    def find(self, t):
        low, high = 0, self.M
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.start(middle) <= t else (low, middle)
        return low

    def edges(self, x):
        """12.7."""

        def g(j):
            total = 65536 * j
            for share, mean, inverse in zip(self.share, self.mean, self.inverse):
                z = (64 * x + 4 * j - mean) * inverse - 256
                c, rest = (z >> 9) + 4096, z % 512
                low, high = (int(self.sigmoid[min(max(each, 0), 8191)]) for each in (c, c + 1))
                total += share * (low * (512 - rest) + high * rest)
            return total

        return [(g(j) - g(0)) * 65520 // (g(16) - g(0)) + j for j in range(17)]

    def gradients(self, x):
        K, one, m, d, e = len(self.share), f32(1), [], [], []
        whole = f32(2.0**-19)
        for k in range(K):
            w = f32(self.share[k]) * f32(2.0**-14)
            low, high = f32(self.mass(k, x)) * f32(2.0**-16), f32(self.mass(k, x + 1)) * f32(2.0**-16)
            slope0, slope1 = low * (one - low), high * (one - high)
            z0, z1 = f32(self.cell(k, x)) * f32(2.0**-8), f32(self.cell(k, x + 1)) * f32(2.0**-8)
            m.append(w * (high - low))
            whole = whole + m[k]
            d.append(slope1 - slope0)
            e.append(z1 * slope1 - z0 * slope0)
        g = np.zeros(3 * K, f32)
        for k in range(K):
            w = f32(self.share[k]) * f32(2.0**-14)
            r = w / whole
            g[k] = w - m[k] / whole
            g[K + k] = (d[k] * r) * ((f32(self.inverse[k]) * f32(2.0**-11)) * (f32(self.spread) * f32(2.0**-6)))
            g[2 * K + k] = (e[k] * r) * f32(0.6931472)
        return np.clip(np.rint(g * f32(1024)), -65536, 65536).astype(np.int64)


class Learner:
    """9.8, of a layer: weights q (I + 1, O), shifts (O,), rates (I + 1, O), bounds of the inputs (I + 1,)."""

    def __init__(self, q, shift, rate, limit, passes=False):
        self.q, self.shift, self.rate, self.limit, self.passes = q, shift, rate, np.array(limit)[:, None], passes
        self.quantum = np.array([2.0 ** -int(s) for s in self.shift])
        self.w = self.q * self.quantum
        self.m, self.v = np.zeros(self.q.shape), np.zeros(self.q.shape)
        self.taught = np.zeros(self.q.shape, np.int64)

    @classmethod
    def of_last(cls, model, plane):
        name = f"net.out.{plane}"
        q = np.vstack([model.tensors[f"{name}.weight"].T, model.tensors[f"{name}.bias"]])
        rate = np.repeat([32.0, 256.0, 32.0], model.mixtures) * 2.0**-model.rate_bits
        rate = np.vstack([np.tile(rate * 2.0**-model.head_grid, (len(q) - 1, 1)), rate])
        return cls(q, model.tensors[f"{name}.shift"], rate, [int(model.tensors["net.level"])] * (len(q) - 1) + [1])

    def step(self, left1, left2):
        G = self.taught.astype(np.float64)
        self.m = self.m + (1 - 0.9) * (G - self.m)
        self.v = self.v + (1 - 0.99) * (G * G - self.v)
        size = np.sqrt(self.v / left2) + 1.0
        w = self.w - self.rate * ((self.m / left1) / size)
        q = np.rint(w / self.quantum).astype(np.int64)
        passed = (np.abs(q[:-1]) << self.shift.max() - self.shift).sum(1).max() * 63 if self.passes else 0
        if (np.abs(q) * self.limit).sum(0).max() < 1 << 24 > passed:
            self.w, self.q = w, q
        self.taught[:] = 0


class NetLearner:
    """9.10."""

    def __init__(self, model):
        self.model, self.d1, self.d2 = model, np.float64(1), np.float64(1)
        self.lessons = model.description.get("learning", [])
        blocks = [f"net.{block}.{half}" for block in range(model.blocks) for half in (1, 2)]
        self.names = ["net.heads", *blocks[::-1], "net.in"][: len(self.lessons)]
        level, H = int(model.tensors["net.level"]), len(model.tensors["net.heads.shift"]) // model.channels
        self.learners = {}
        for name, (_, rate_bits, input_bits) in zip(self.names, self.lessons):
            weight, bias, shift = (model.tensors[f"{name}.{part}"] for part in ("weight", "bias", "shift"))
            inputs, known = weight.shape[1], []
            if name == "net.heads" and model.channels > 1:
                known = np.zeros(
                    (model.tensors[f"net.known.{model.channels - 1}.weight"].shape[1], len(shift)), np.int64
                )
                for p in range(1, model.channels):
                    own = model.tensors[f"net.known.{p}.weight"]
                    known[: own.shape[1], p * H : (p + 1) * H] = own.T
            bits, bound = (5, 256) if name == "net.in" else (input_bits, level)
            fine = np.array([bits] * inputs + [5] * len(known) + [0])
            rate = np.repeat(2.0 ** -(rate_bits + fine.astype(np.float64))[:, None], len(shift), 1)
            limit = [bound] * inputs + [256] * len(known) + [1]
            q = np.vstack([weight.T, *([known] if len(known) else []), bias])
            self.learners[name] = Learner(q, shift, rate, limit, passes=name != self.names[-1])

    def teach(self, pixel):
        if not self.names:
            return
        scales = [f32(2.0**bits) for bits, *_ in self.lessons]
        taught, H = self.learners["net.heads"].taught, len(pixel.of_heads[0][0])
        trunk = pixel.hidden[-1]
        for p, (g, known) in enumerate(pixel.of_heads):
            a = np.array([*trunk, *known, *[0] * (len(taught) - 1 - len(trunk) - len(known)), 1])
            taught[:, p * H : (p + 1) * H] += np.outer(a, g)
        g = {"net.heads": np.concatenate([g for g, _ in pixel.of_heads])}
        places, before, stream = list(pixel.hidden), "net.heads", None
        for j, name in enumerate(self.names[1:], 1):
            weight = self.model.tensors[f"{before}.weight"] * 2.0 ** -self.model.tensors[f"{before}.shift"][:, None]
            back = slope(places[-1]) * (f32(g[before] @ weight) * (scales[j] / scales[j - 1]))
            if before.endswith(".1"):  # the stream also passes the block by
                back = f32(g[stream]) * (scales[j] / scales[j - 2]) + back
            g[name] = small(back)
            stream = name if name.endswith(".2") else stream
            places.pop()
            a = pixel.inputs if name == "net.in" else places[-1]
            self.learners[name].taught += np.outer([*a, 1], g[name])
            before = name

    def step(self):
        self.d1 *= np.float64(0.9)
        self.d2 *= np.float64(0.99)
        for name, learner in self.learners.items():
            learner.step(1 - self.d1, 1 - self.d2)
            inputs = self.model.tensors[f"{name}.weight"].shape[1]
            self.model.tensors[f"{name}.weight"][:] = learner.q[:inputs].T
            self.model.tensors[f"{name}.bias"][:] = learner.q[-1]
            H = len(learner.shift) // self.model.channels
            for p in range(1, self.model.channels) if name == "net.heads" else ():
                known = self.model.tensors[f"net.known.{p}.weight"]
                known[:] = learner.q[inputs : inputs + known.shape[1], p * H : (p + 1) * H].T


def slope(a):
    return np.where(np.asarray(a) > 0, f32(1), f32(1 / 8))


def small(g):
    return np.clip(np.rint(g), -63, 63).astype(np.int64)


class Regression:
    """9.9: the sums of one plane of a tile, f32 (n + 1, n) for each place; what stands right of the diagonal is not used."""

    def __init__(self, height, width, plane):
        self.n = 5 + 2 * plane
        shape = self.n + 1, self.n
        self.column = np.zeros((height + 1, 2 + width + 2, *shape), f32)  # of (y, x) at y + 1, x + 2: a border is 0
        self.left, self.above = np.zeros((2, height, *shape), f32)  # of each row, as far as it is decoded

    def give(self, y, x, r, target, gain):
        given = (np.array([*r, target]) * gain)[:, None] * np.array(r)
        self.column[y + 1, x + 2] = self.column[y, x + 2] * f32(27 / 32) + given
        self.left[y] = self.left[y] * f32(27 / 32) + given

    def weights(self, y, x):
        """To be called once for each x of a row, in order."""
        for place in range(-2, 1) if x == 0 else [x]:
            last, middle, first = self.column[y, place + 2 : place + 5]
            total = self.above[y] * f32(3 / 4) + first * f32(9 / 16)
            self.above[y] = total + middle * f32(21 / 64) + last * f32(7 / 16)
        return solved(self.above[y] + self.left[y], self.n)


def solved(s, n):
    """9.9: the weights of the regressors."""
    for i in range(n):
        s[i, i] = s[i, i] + f32(1 / 4)
        for j in range(i):
            for k in range(j):
                s[i, j] = s[i, j] - s[i, k] * s[j, k]
        for j in range(i):
            lower = s[i, j] * s[j, j]
            s[i, i] = s[i, i] - lower * s[i, j]
            s[i, j] = lower
        s[i, i] = f32(1) / max(s[i, i], f32(1 / 8))
    c = s[n].copy()
    for i in range(n):
        for k in range(i):
            c[i] = c[i] - s[i, k] * c[k]
    for i in reversed(range(n)):
        c[i] = c[i] * s[i, i]
        for k in range(i + 1, n):
            c[i] = c[i] - s[k, i] * c[k]
    return c


def autoregressive(payload, shapes, model, trace):
    body, layers = Bytes(payload), [np.empty(shape, np.uint8) for shape in shapes]
    for tiles in cut(shapes, model):
        seed = body.varint()
        stack = Stack(body.take(body.varint()))
        walk, fronts, P = Walk(model, tiles, trace), fronts_of(tiles), model.channels
        for number, front in enumerate(fronts):
            for begin, end in chunks_of(fronts, number, model.bits):
                trace("stack", stack.save())
                wanted = stack.pop([1 << 19] * (P * (end - begin)))
                pixels = walk.start(front[begin:end])
                rest, counts = list(wanted), list(wanted)
                for p in range(P):
                    for n, pixel in enumerate(pixels):
                        law = pixel.law(p)
                        t = wanted[n * P + p]
                        x = law.find(t)
                        rest[n * P + p], counts[n * P + p] = t - law.start(x), law.start(x + 1) - law.start(x)
                        trace("t", t)
                        trace("symbol, start, count", (x, law.start(x), counts[n * P + p]))
                        pixel.learn(p, law, x)
                stack.fine_push(rest, counts)
                walk.enter(pixels)
            walk.learn()
        stack.check_seed(bytes(seed))
        put(layers, tiles, walk.arrays())
        trace("stack", stack.save())
    assert body.rest() == b""
    return layers


def put(layers, tiles, arrays):
    for (layer, top, left, h, w), array in zip(tiles, arrays):
        layers[layer][top : top + h, left : left + w] = array


# --- 10

SQUASH = [round(65536 / (1 + math.exp(-i / 256))) for i in range(-2815, 2816)]
STRETCH = [bisect.bisect_left(SQUASH, 16 * j + 8) - 2815 for j in range(4096)]
FINE_STRETCH = [bisect.bisect_left(SQUASH, j) - 2815 for j in range(65536)]
ORDER = {row[0]: row[1:] for row in numbers("order")}
MASK = (1 << 64) - 1


def squash(i):
    return SQUASH[i + 2815]


def rate_of(n):
    return 131072 // (2 * n + 3)


class Mixer:
    """What mixing learns, and the arithmetic coder."""

    def __init__(self, uses, code, trace=lambda name, value: None):
        self.slot_bits = min(16, uses.bit_length())
        self.entries, self.maps, self.uses, self.done, self.trace = {}, {}, {}, 0, trace
        self.weights = {}
        self.code, self.position = code, 4
        self.low, self.high, self.value = 0, (1 << 32) - 1, int.from_bytes((code + bytes(4))[:4], "big")

    def bit(self, probability):
        middle = self.low + ((self.high - self.low) * probability >> 16)
        bit = int(self.value <= middle)
        if bit:
            self.high = middle
        else:
            self.low = middle + 1
        while self.low >> 24 == self.high >> 24:
            self.low, self.high = 256 * self.low % (1 << 32), 256 * self.high % (1 << 32) + 255
            byte = self.code[self.position] if self.position < len(self.code) else 0
            self.value, self.position = 256 * self.value % (1 << 32) + byte, self.position + 1
        return bit

    def sample(self, canvas, y, x, c, b, law=None):
        """Decode one into the canvas; law: the model's."""
        trace = self.trace
        hashes = contexts(canvas, y, x, c, b)
        trace("hash", hashes[:3])
        node, rate = 1, 6 + 10240 // (256 + self.done)
        symbol, first, end = 0, 0, 1 << 19
        for position in range(b):
            if position % 4 == 0:
                base = (256 * c + node) * 0xA0761D6478BD642F
                slots = [((h + base) * 0xE7037ED1A0B428DB & MASK) >> 64 - self.slot_bits for h in hashes]
                trace("slot", slots[:3])
            inner = (1 << position % 4) + node % (1 << position % 4)
            inputs, familiar = [], 0
            for i in range(18):
                e, z, o = self.entries.get((i, slots[i], inner), (32768, 0, 0))
                if z + o:
                    inputs += [STRETCH[e >> 4], STRETCH[self._map(i, z, o) >> 4]]
                    familiar += 1
                else:
                    inputs += [0, 0]
            half = symbol + (1 << b - 1 - position)
            s = law.start(half) if law else 0
            inputs.append(STRETCH[min((end - s) * 4096 // (end - first), 4095)] if law else 0)
            rows = [
                self.weights.setdefault((m, own), [6553] * 37) for m, own in enumerate((8 * c + position, familiar))
            ]
            logits = [min(max(sum(w * a for w, a in zip(row, inputs)) >> 16, -2815), 2815) for row in rows]
            probability = min(max(squash(sum(logits) >> 1), 16), 65520)
            bit = self.bit(probability)
            trace("familiar, logits, probability, bit", (familiar, *logits, probability, bit))
            for row, logit in zip(rows, logits):
                error = (65536 * bit - squash(logit)) * rate
                for j in range(37):
                    row[j] += (inputs[j] * error + (1 << 17)) >> 18
            for i in range(18):
                self._learn(i, slots[i], inner, bit)
            node = 2 * node + bit
            if bit:
                symbol, first = half, s
            else:
                end = s
        canvas[y, x, c] = node - (1 << b)
        self.done += 1
        trace("sample, low, high", (node - (1 << b), self.low, self.high))

    def _map(self, i, z, o):
        return self.maps.get((i, z, o), 65536 * (5 * o + 2) // (5 * (z + o) + 4))

    def _learn(self, i, slot, inner, bit):
        e, z, o = self.entries.get((i, slot, inner), (32768, 0, 0))
        e += ((65535 * bit - e) * rate_of(z + o)) >> 16
        if z + o:
            uses, old = self.uses.get((i, z, o), 0), self._map(i, z, o)
            self.maps[i, z, o] = old + (((65535 * bit - old) * rate_of(uses + 6)) >> 16)
            self.uses[i, z, o] = min(uses + 1, 240)
        if bit:
            o, z = min(o + 1, 15), (z + 1 >> 1 if z > 2 else z)
        else:
            z, o = min(z + 1, 15), (o + 1 >> 1 if o > 2 else o)
        self.entries[i, slot, inner] = e, z, o


def contexts(canvas, y, x, c, b):
    """10.4: the hashes."""

    def at(dy, dx, channel=c):
        return int(canvas[y + dy, x + dx, channel])

    def pixel(dy, dx):
        return int.from_bytes(bytes(canvas[y + dy, x + dx].tolist()), "big")

    def clip(a):
        return min(max(a, 0), 255)

    N, W, NW, NE = at(-1, 0), at(0, -1), at(-1, -1), at(-1, 1)
    last, n, w, nw = (at(0, 0, c - 1), at(-1, 0, c - 1), at(0, -1, c - 1), at(-1, -1, c - 1)) if c else (0, 0, 0, 0)
    second = at(0, 0, c - 2) if c > 1 else 0
    known = int.from_bytes(bytes(canvas[y, x, :c].tolist()), "big")
    pN, pW, pNW, pNE, pNN, pWW = (pixel(*d) for d in ((-1, 0), (0, -1), (-1, -1), (-1, 1), (-2, 0), (0, -2)))
    gradient, gradient_last = clip(N + W - NW), clip(n + w - nw)
    shifted = clip(gradient + last - gradient_last)
    busy = abs(W - NW) + abs(N - NW) + abs(N - NE)
    values = [
        (),
        (W, N),
        (W, N, NW, NE),
        (W, N, NW, NE, at(0, -2), at(-2, 0)),
        (W, last, second),
        (N, last, second),
        (known,),
        (shifted,),
        (clip(W + last - w), clip(N + last - n)),
        (pW, pN, known),
        (pW, pN, pNW, pNE, known),
        (pW, known),
        (pN, known),
        (gradient, last - gradient_last, abs(W - N) >> 3),
        (W + N + 1 >> 1, last - (w + n + 1 >> 1) >> 1),
        (pW, pN, pNW, pNE, pWW, pNN, known, 256 * at(-1, -2) + at(-1, 2), 256 * at(-2, -1) + at(-2, 1)),
        (shifted, busy >> 2),
        (pNE, pNN, known),
    ]
    hashes = []
    for i, own in enumerate(values):
        h = i
        for a in (16 * c + b, *own, *[0] * (9 - len(own))):
            h = (h * 0x9E3779B97F4A7C15 + a + 1) * 0xD6E8FEB86659FD93 & MASK
        hashes.append(h)
    return hashes


def canvas_of(height, width, channels):
    return np.zeros((height + 2, width + 4, channels), np.uint8)


def mixing(payload, shapes, trace=lambda name, value: None):
    bits, layers = payload[: len(shapes)], []
    mixer = Mixer(sum(math.prod(shape) * -(-b // 4) for shape, b in zip(shapes, bits)), payload[len(shapes) :], trace)
    for (height, width, channels), b in zip(shapes, bits):
        canvas = canvas_of(height, width, channels)
        for y in range(height):
            for x in range(width):
                for c in range(channels):
                    mixer.sample(canvas, y + 2, x + 2, c, b)
        layer = np.empty((height, width, channels), np.uint8)
        layer[..., ORDER[channels]] = canvas[2:, 2:-2]
        layers.append(layer)
    return layers


# --- 10.7


class Counters(dict):
    """Counters by their keys: probability (22 bits), uses."""

    def __init__(self, first=lambda key: 1 << 21, trained=lambda key: UNSEEN):
        self.first, self.trained = first, trained

    def __missing__(self, key):
        logit = self.trained(key)
        return (self.first(key), 0) if logit == UNSEEN else (squash(22 * logit) << 6, 20)

    def logit(self, key):
        return FINE_STRETCH[self[key][0] >> 6]

    def count(self, key, bit):
        p, uses = self[key]
        self[key] = p + ((((1 << 22) - 1) * bit - p) * rate_of(uses) >> 16), min(uses + 1, 255)


class Stages(dict):
    """Tables over logits by their keys."""

    def __missing__(self, key):
        self[key] = [SQUASH[min(max(176 * cell - 1, 0), 5630)] << 4 for cell in range(33)]
        return self[key]

    def look(self, key, logit):
        cell, beyond = divmod(logit + 2816, 176)
        table = self[key]
        return (table[cell] * (176 - beyond) + table[cell + 1] * beyond) // 2816, cell + (2 * beyond > 176)

    def learn(self, key, cell, bit):
        self[key][cell] += 65535 * 16 * bit - self[key][cell] >> 5


def logit_of(weights, inputs):
    return min(max(sum(w * a for w, a in zip(weights, inputs)) >> 16, -2815), 2815)


def learn_weights(weights, inputs, error, rate):
    step = error * rate >> 4
    for j, a in enumerate(inputs):
        weights[j] += a * step + (1 << 13) >> 14


def mixed_hash(h, a):
    return ((h ^ a & MASK) * 0x9E3779B97F4A7C15 & MASK) ^ h >> 29


def hash_of(h, *values):
    for a in values:
        h = mixed_hash(h, a)
    return h


def place_of(h, bits):
    return (h * 0xD6E8FEB86659FD93 & MASK) >> 64 - bits


def packed(*values):
    number = 0
    for a in values:
        number = number << 8 | a
    return number


def clip(a):
    return min(max(a, 0), 255)


UNSEEN = -128


class Prior:
    """10.11: what a mixer knows before its first pixel; nothing if it is not trained."""

    def __init__(self, channels, is_trained):
        self.is_trained = is_trained
        if is_trained:
            with np.load(TABLE) as table:
                kind = 4 if channels == 2 else channels
                self.parts = {name[:-1]: table[name].tolist() for name in table.files if name.endswith(str(kind))}

    def counters(self, name, place, first=lambda key: 1 << 21):
        return Counters(first, lambda key: self.parts[name][place(key)] if self.is_trained else UNSEEN)

    def weights(self, set_, *key):
        if not self.is_trained:
            return [4369] * 47
        rows = [
            lambda c, position, rest: 8 * c + position,
            lambda familiar, position: 32 + familiar,
            lambda both, position, c: 55 + both,
            lambda agree, c: 64 + c,
            lambda c, alpha, spread, surprise: 68 + 6 * c + surprise,
        ]
        return [512 * weight for weight in self.parts["weights"][rows[set_](*key)]]

    def hit_weights(self, set_, key):
        row = 0, 1 + key % 4, 5
        return [512 * weight for weight in self.parts["hit_weights"][row[set_]]] if self.is_trained else [13107] * 16

    def finals(self, c, position):
        return [512 * weight for weight in self.parts["finals"][8 * c + position]] if self.is_trained else [16384] * 4

    def error(self, row, law):
        code = self.parts["errors"][row][law]
        return 8 + code % 8 << code // 8, 1


class PixelMixer:
    def __init__(self, pixels, samples, code, prior):
        self.coder = Mixer(1, code)
        self.slot_bits = min(18, (2 * samples).bit_length())
        self.stage_bits = min(14, self.slot_bits)
        self.hit_bits = min(20, (2 * pixels).bit_length())
        self.prior, self.errors = prior, {}
        self.checks, self.entries, self.done = {}, {}, 500 if prior.is_trained else 0
        self.maps = prior.counters(
            "maps", lambda key: 256 * key[0] + 16 * key[1] + key[2],
            lambda key: (65536 * (5 * key[2] + 2) // (5 * (key[1] + key[2]) + 4)) << 6,
        )  # fmt: skip
        self.lengths = prior.counters("trust", lambda key: 64 * key[0] + key[1])
        self.trust = prior.counters("hit_trust", lambda key: 64 * key[0] + key[1])
        self.stages, self.weights, self.finals = Stages(), {}, {}
        self.hits, self.hit_stages, self.hit_weights = Counters(), Stages(), {}
        self.places = {}

    def pixel(self, flat, at, stride, channels, b, periods, miss, predicted, matches, canvas):
        """Decode the samples of a pixel; returns it. canvas: whether the layer has one (14)."""
        known, rest = 0, miss
        for c in range(channels):
            known = known << 8 | self.sample(flat, at, stride, c, channels, b, periods, rest, matches, known, canvas)
            if rest == 1 and known != predicted >> 8 * (channels - 1 - c):
                rest = 2
        return known

    def sample(self, flat, at, stride, c, channels, b, periods, rest, matches, known, canvas):
        shift = 8 * (channels - 1 - c)
        self.done += 1
        rate = 6 + 10240 // (256 + self.done)
        hashes, agree, stage_hash = pixel_contexts(flat, at, stride, c, channels, b, periods, rest > 0, known, canvas)
        node, laws = 1, []
        if self.prior.is_trained:
            row, means = sample_laws(flat, at, stride, c, channels, b, known)
            entries = [self.errors.get((row, k)) or self.prior.error(row_number(row), k) for k in range(len(means))]
            laws = [[mean, (355 << 19) // (error + 2048), 0, 65536] for mean, (error, _) in zip(means, entries)]
        for position in range(b):
            if position % 4 == 0:
                slots = []
                for i, h in enumerate(hashes):
                    own = mixed_hash(h, node) * 0xE7037ED1A0B428DB & MASK
                    slots.append((i, own >> 64 - self.slot_bits))
                    if self.checks.get(slots[i], 0) != own & 0xFFFFFFFF | 1:
                        self.checks[slots[i]] = own & 0xFFFFFFFF | 1
                        for inner in range(1, 16):
                            self.entries.pop((slots[i], inner), None)
            inner, left = (1 << position % 4) + node % (1 << position % 4), b - 1 - position
            inputs, familiar = [], 0
            for i, slot in enumerate(slots):
                e, z, o = self.entries.get((slot, inner), (32768, 0, 0))
                inputs += [FINE_STRETCH[e], self.maps.logit((i, z, o))]
                familiar += z + o > 0
            both, active = 0, []
            for k, (pixel, length) in enumerate(matches):
                expected = (pixel >> shift) % 256 | 1 << b
                both *= 3 if k < 2 else 1
                inputs.append(0)
                if length and pixel >> shift + 8 == known and expected >> left + 1 == node:
                    one = expected >> left & 1
                    inputs[-1] = self.lengths.logit((k, length)) * (1 if one else -1)
                    both += 1 + one if k < 2 else 0
                    active.append((k, length, one))
            keys = [(0, c, position, rest), (1, familiar, position), (2, both, position, c), (3, agree, c)]
            if laws:
                keys.append((4, *row))
                inputs[47:] = [0] * (47 - len(inputs))
                found = [law_logit(law, 8 * (2 * node + 1 << left) - (8 << b) - 4, 8 << left) for law in laws]
                inputs += [logit for logit, _ in found]
            rows = [self.weights.setdefault(key, self.prior.weights(*key)) for key in keys]
            logits = [logit_of(each, inputs) for each in rows]
            finals = self.finals.setdefault((c, position), self.prior.finals(c, position))
            logit = logit_of(finals, logits)
            keys = [("a", 256 * c + node), ("b", place_of(mixed_hash(stage_hash, 256 * c + node), self.stage_bits))]
            (first, cell), (second, other_cell) = [self.stages.look(key, logit) for key in keys]
            bit = self.coder.bit(min(max(2 * squash(logit) + first + second >> 2, 1), 65535))
            self.stages.learn(keys[0], cell, bit)
            self.stages.learn(keys[1], other_cell, bit)
            for each, own in zip(rows, logits):
                learn_weights(each, inputs, 65535 * bit - squash(own), rate)
            learn_weights(finals, logits, 65535 * bit - squash(logit), 2)
            for k, length, one in active:
                self.lengths.count((k, length), int(one == bit))
            for i, slot in enumerate(slots):
                e, z, o = self.entries.get((slot, inner), (32768, 0, 0))
                e += (65535 * bit - e) * rate_of(z + o) >> 16
                self.maps.count((i, z, o), bit)
                if bit:
                    o, z = min(o + 1, 15), (z + 1 >> 1 if z > 2 else z)
                else:
                    z, o = min(z + 1, 15), (o + 1 >> 1 if o > 2 else o)
                self.entries[slot, inner] = e, z, o
            node = 2 * node + bit
            for law, (_, here) in zip(laws, found if laws else []):
                law[2 if bit else 3] = here
        value = node - (1 << b)
        if laws:
            for k, (mean, (error, uses)) in enumerate(zip(means, entries)):
                error += ((abs(8 * value - mean) << 11) - error) * rate_of(uses) >> 16
                self.errors[row, k] = error, min(uses + 1, 60)
        return value

    def layer(self, flat, first, height, width, channels, b, periods, canvas=False):
        stride, length, distance = width + 12, 0, 0
        above, lately, bits = [0] * width, [0] * (width + 2), self.hit_bits
        for y in range(height):
            run = past = corner = 0
            for x in range(width):
                at = first + y * stride + x

                def pixel(rows, columns, place=at, stride=stride):
                    return flat[place + rows * stride + columns]

                W, N, NW, NE, WW, NN = (pixel(*d) for d in ((0, -1), (-1, 0), (-1, -1), (-1, 1), (0, -2), (-2, 0)))
                NNE, NEE, NWW, NNW = (pixel(*d) for d in ((-2, 1), (-1, 2), (-1, -2), (-2, -1)))
                near = hash_of(1, W, N, NW, NE)
                wide = hash_of(near, WW, NN, NNE, NEE)
                widest = hash_of(wide, NWW, NNW, pixel(0, -3), pixel(-1, 3), pixel(0, -4), pixel(-1, 4), pixel(-3, 0))
                wide_key, widest_key = (0, place_of(wide, bits)), (1, place_of(widest, bits))

                def alike(place, *offsets, at=at, stride=stride):
                    return all(flat[place + r * stride + d] == flat[at + r * stride + d] for r, d in offsets)

                if not length and above[x]:
                    distance = above[x]
                    length = int(alike(at - distance, (0, -1), (-1, 0), (-1, 1)))
                o = self.places.get(widest_key, 0)
                if not length and o > 2 * stride:
                    near_ones = (0, -1), (-1, 0), (-1, 1), (0, -2), (-2, 0), (-1, -1), (0, -3), (0, -4)
                    length, distance = int(alike(o, *near_ones)), at - o
                o = self.places.get(wide_key, 0)
                matches = [(flat[at - distance] if length else -1, min(length, 31)), (-1, 0)]
                if o > 2 * stride:
                    tests = (0, -1), (-1, 0), (0, -2), (-1, 1)
                    matches[1] = flat[o], 1 + sum(alike(o, each) << i for i, each in enumerate(tests))
                pattern = bits_of(W == N, N == NW, N == NE, W == NW, W == WW, N == NN)
                candidates = [(W, (0, pattern)), (N, (1, pattern))]
                candidates += [(match[0], (2 + k, match[1])) for k, match in enumerate(matches)]
                best = 0
                for k in range(1, 3 if length > 8 else 2):
                    if self.trust[candidates[k][1]][0] > self.trust[candidates[best][1]][0]:
                        best = k
                predicted, trusted = candidates[best]
                if canvas:
                    k = at - periods[0]
                    K, KE, KS = flat[k], flat[k + 1], flat[k + stride]
                    around = (0, -1), (-1, 0), (-1, 1), (-1, -1), (0, -2), (-2, 0)
                    agreed = bits_of(*(alike(k, each) for each in around))
                    matches.append((K, 1 + agreed))
                    if self.trust[4, agreed][0] > self.trust[trusted][0]:
                        best, predicted, trusted = 3, K, (4, agreed)
                shape = bits_of(*(a == predicted for a in (W, N, NW, NE, WW, NN, NNE, NNW, NWW, NEE)))
                match = bits_of(matches[0][0] == predicted, matches[1][0] == predicted, length > 0, matches[1][1] > 0)
                history = past % 16 | lately[x + 1] % 4 << 4 | lately[x + 2] % 4 << 6 | corner % 4 << 8
                shape_match = (shape & 15) << 4 | match
                keys = [
                    hash_of(near, predicted), hash_of(2, shape << 4 | match), hash_of(wide, predicted),
                    hash_of(3, matches[0][1] << 12 | matches[1][1] << 8 | match << 4 | best), hash_of(4, W, N, predicted),
                    hash_of(5, history << 8 | shape_match), hash_of(widest, predicted),
                    hash_of(6, min(run, 255) << 8 | shape_match),
                ]  # fmt: skip
                more = [0, 0]
                if canvas:
                    keys[4] = hash_of(4, K, N, predicted, W, KE)
                    keys.append(hash_of(7, agreed << 13 | bits_of(KE == K, KS == K, K == predicted) << 10 | shape))
                    more[0] = self.trust.logit((4, agreed)) * (1 if K == predicted else -1)
                keys = [(i, place_of(key, bits)) for i, key in enumerate(keys)]
                if canvas:
                    more[1] = self.hits.logit(keys[8])
                inputs = [self.hits.logit(key) for key in keys[:8]]
                inputs += [self.trust.logit(key) * (1 if a == predicted else -1) for a, key in candidates]
                for k in range(2):
                    inputs[10 + k] *= matches[k][1] > 0
                inputs += [self.trust.logit(trusted), 256, *more]
                rows = [(0, shape & 63), (1, match << 2 | best), (2, history & 255)]
                rows = [self.hit_weights.setdefault(row, self.prior.hit_weights(*row)) for row in rows]
                logits = [logit_of(row, inputs) for row in rows]
                logit = sum(logits) // 3
                corrected, cell = self.hit_stages.look(shape, logit)
                probability = min(max(squash(logit) + corrected >> 1, 1), 65535)
                is_likely = probability >= 63500
                if is_likely and self.coder.bit(probability):
                    flat[at] = predicted
                else:
                    known = stride, channels, b, periods, int(is_likely), predicted, matches, canvas
                    flat[at] = self.pixel(flat, at, *known)
                hit = int(flat[at] == predicted)
                self.hit_stages.learn(shape, cell, hit)
                for row, own in zip(rows, logits):
                    learn_weights(row, inputs, 65535 * hit - squash(own), 20)
                for key in keys:
                    self.hits.count(key, hit)
                for a, key in candidates:
                    self.trust.count(key, int(a == flat[at]))
                if canvas:
                    self.trust.count((4, agreed), int(K == flat[at]))
                corner = lately[x + 1]
                past = lately[x + 1] = (past << 1 | hit) % 16
                run = run + 1 if hit else 0
                self.places[wide_key] = self.places[widest_key] = at
                if length:
                    length = length + 1 if matches[0][0] == flat[at] else 0
                    above[x] = distance if length else 0


def bits_of(*flags):
    return sum(bool(flag) << i for i, flag in enumerate(flags))


def row_number(row):
    c, alpha, spread, surprise = row
    return ((3 * c + alpha) * 6 + spread) * 6 + surprise


def difference_level(a):
    return sum(a > least for least in (0, 2, 6, 15, 40))


def law_logit(law, threshold, half):
    """10.11: the logit of a bit, and the distribution function at the threshold."""
    mean, slope, below, above = law
    here = squash(min(max((threshold - mean) * slope >> 8, -2815), 2815))
    if above - below < 256 or not below < here < above:
        logit = min(half * slope >> 8, 2815)
        return (logit if mean > threshold else -logit), min(max(here, below), above)
    return FINE_STRETCH[min(max((above - here) * 65536 // (above - below), 1), 65535)], here


def sample_laws(flat, at, stride, c, channels, b, known):
    """10.11: the row of a sample's laws, and their means in eighths."""

    def own(rows, columns, before=0):
        return flat[at + rows * stride + columns] >> 8 * (channels - 1 - c + before) & 255

    W, N, NW, NE, WW, NN = (own(*d) for d in ((0, -1), (-1, 0), (-1, -1), (-1, 1), (0, -2), (-2, 0)))
    gradient, alpha = clip(N + W - NW), 0
    means = [4 * (W + N), 8 * W, 8 * N, 8 * (W + NE - N)]
    more = [8 * (2 * W - WW), 8 * (2 * N - NN)]
    surprise = max(abs(W - WW), abs(N - NN))
    if c:
        last = known % 256
        w, n, nw, ne = (own(*d, 1) for d in ((0, -1), (-1, 0), (-1, -1), (-1, 1)))
        expected = clip(n + w - nw)
        surprise = abs(last - expected)
        means = [8 * clip(gradient + last - expected), 4 * (W + N + 2 * last - w - n), 8 * (W + last - w)]
        means.append(8 * (N + last - n))
        more = [8 * (W + NE - N + last - w - ne + n), 8 * (W + N + NE + NW + WW + NN) // 6]
        if c > 1:
            more[1] = 4 * (W + N + 2 * (known >> 8 & 255) - own(0, -1, 2) - own(-1, 0, 2))
        if channels % 2 == 0:
            first = known >> 8 * (c - 1)
            alpha = 1 if first == 255 else 2 if first == 0 else 0
    means += [8 * gradient, 3 * (W + N) + NE + NW, *more]
    spread = max(abs(W - NW), abs(N - NW), abs(N - NE))
    row = c, alpha, difference_level(spread), difference_level(surprise)
    return row, [min(max(mean, 0), 8 * ((1 << b) - 1)) for mean in means]


def pixel_contexts(flat, at, stride, c, channels, b, periods, is_rest, known, canvas):
    """10.9: the hashes, which neighbours agree, and the hash of the second stage."""
    shift = 8 * (channels - 1 - c)
    Qs = [at - period if at - period >= 2 * stride else at - 2 * stride for period in periods]

    def pixel(rows, columns, place=at):
        return flat[place + rows * stride + columns]

    def own(rows, columns, place=at):
        return pixel(rows, columns, place) >> shift & 255

    W, N, NW, NE, WW, NN = (own(*d) for d in ((0, -1), (-1, 0), (-1, -1), (-1, 1), (0, -2), (-2, 0)))
    gradient, busy = clip(N + W - NW), abs(W - NW) + abs(N - NW) + abs(N - NE)
    alpha = known >> 8 * (c - 1) if c and channels % 2 == 0 else 128
    seed = 16 * c + b + 1 + 64 * is_rest + 128 * (alpha == 0) + 256 * (alpha == 255)
    h = [0] * 22
    h[0], h[1], h[2] = seed, hash_of(seed, packed(W, N)), hash_of(seed, packed(W, N, NW, NE))
    h[3] = hash_of(h[2], packed(WW, NN))
    if channels > 1:
        last = known & 255 if c else 0
        before = known >> 8 & 255 if c > 1 else 0
        n, w, nw, q = (
            (pixel(r, d, place) >> shift + 8 & 255 if c else 0)
            for r, d, place in ((-1, 0, at), (0, -1, at), (-1, -1, at), (0, 0, Qs[0]))
        )
        last_gradient = clip(n + w - nw)
        shifted = clip(gradient + last - last_gradient)
        Q_W, R_W = (clip(own(0, 0, place) + W - own(0, -1, place)) for place in Qs)
        Q_N = clip(own(0, 0, Qs[0]) + N - own(-1, 0, Qs[0]))
        base = hash_of(seed, known)
        h[4], h[5] = hash_of(seed, packed(W, last, before)), hash_of(seed, packed(N, last, before))
        h[6], h[7] = base, hash_of(seed, shifted)
        h[8] = hash_of(seed, packed(clip(W + last - w), clip(N + last - n)))
        h[9] = hash_of(base, pixel(0, -1), pixel(-1, 0))
        h[10] = hash_of(h[9], pixel(-1, -1), pixel(-1, 1))
        h[11], h[12] = hash_of(base, pixel(0, -1)), hash_of(base, pixel(-1, 0))
        h[13] = hash_of(seed, gradient << 16 | last - last_gradient + 256 << 5 | abs(W - N) >> 3)
        h[14] = hash_of(seed, (W + N + 1 >> 1) << 9 | (last - (w + n + 1 >> 1) >> 1) + 256)
        h[15] = hash_of(h[10], pixel(0, -2), pixel(-2, 0), packed(own(-1, -2), own(-1, 2), own(-2, -1), own(-2, 1)))
        h[16] = hash_of(seed, shifted << 8 | busy >> 2)
        h[17] = hash_of(base, pixel(-1, 1), pixel(-2, 0))
        h[18] = hash_of(base, flat[Qs[0]])
        h[19] = hash_of(seed, Q_W << 17 | Q_N << 9 | last - q + 256)
        h[20] = hash_of(h[18], flat[Qs[1]])
        h[21] = hash_of(seed, R_W << 17 | Q_W << 9 | last - q + 256)
        if canvas:
            h[20] = hash_of(h[18], pixel(0, 1, Qs[0]), pixel(1, 0, Qs[0]))
            h[21] = hash_of(seed, own(0, 0, Qs[0]) << 18 | W - own(0, -1, Qs[0]) + 256 << 9 | last - q + 256)
    else:

        def four(*offsets):
            return packed(*(pixel(*offset) for offset in offsets))

        Q, QW, QE, QN = (pixel(*d, Qs[0]) for d in ((0, 0), (0, -1), (0, 1), (-1, 0)))
        R, RW, RE = (pixel(*d, Qs[1]) for d in ((0, 0), (0, -1), (0, 1)))
        h[4], h[5] = hash_of(seed, W), hash_of(seed, N)
        h[6], h[7] = hash_of(seed, four((0, -1), (0, -2), (0, -3))), hash_of(seed, four((-1, 0), (-2, 0), (-3, 0)))
        h[8] = hash_of(h[3], four((-1, -2), (-1, 2), (-2, -1), (-2, 1)))
        h[9] = hash_of(h[8], four((-1, -3), (-1, 3), (-2, -2), (-2, 2)), four((0, -3), (-3, 0)))
        h[10] = hash_of(h[9], four((-2, -3), (-2, 3), (-3, -1), (-3, 1)), four((-1, -4), (-1, 4), (-3, -2), (-3, 2)))
        h[11] = hash_of(
            h[10], four((0, -4), (-4, 0), (-4, -1), (-4, 1)), four((0, -5), (-1, -5), (-1, 5), (0, -6)),
            four((-2, -4), (-2, 4), (-3, -3), (-3, 3)),
        )  # fmt: skip
        h[12], h[13] = hash_of(seed, gradient << 8 | busy >> 2), hash_of(seed, gradient << 8 | abs(W - N) >> 3)
        h[14] = hash_of(seed, packed(W + N + 1 >> 1, NW + NE + 1 >> 1))
        h[15], h[16] = hash_of(seed, packed(NW, NE, NN)), hash_of(h[8], four((0, -3), (-3, 0)))
        h[17] = hash_of(h[6], packed(pixel(0, -4), pixel(0, -5), pixel(0, -6), 0))
        h[18] = hash_of(seed, packed(Q, W, N))
        h[19] = hash_of(h[18], packed(QW, QE, QN, 0), packed(NW, NE))
        h[20] = hash_of(h[18], R, packed(QW, QE))
        h[21] = hash_of(seed, packed(R, RW, RE, W))
    agree = bits_of(W == N, N == NW, N == NE, W == NW, W == WW, N == NN)
    return [value + i & MASK for i, value in enumerate(h)], agree, packed(W, N)


def pixel_mixing(payload, shapes, is_trained=False):
    body, heads = Bytes(payload), []
    for _, width, _ in shapes:
        head, periods = body.byte(), [(0, 3), (3, 0)]
        if head & 16:
            numbers = [body.varint() for _ in range(4)]
            lefts = [a >> 1 if a % 2 == 0 else -(a + 1 >> 1) for a in numbers[1::2]]
            periods = list(zip(numbers[::2], lefts))
        heads.append((head & 15, [up * (width + 12) + left for up, left in periods]))
    pixels = sum(h * w for h, w, _ in shapes)
    prior = Prior(shapes[0][2], is_trained)
    mixer = PixelMixer(pixels, pixels * shapes[0][2], body.rest(), prior)
    flat, layers = [0] * sum((h + 6) * (w + 12) for h, w, _ in shapes), []
    start = 0
    for (height, width, channels), (b, periods) in zip(shapes, heads):
        stride = width + 12
        mixer.layer(flat, start + 6 * stride + 6, height, width, channels, b, periods)
        rows = np.array(flat[start : start + (height + 6) * stride]).reshape(-1, stride)[6:, 6:-6]
        layers.append(samples_of(rows, channels))
        start += (height + 6) * stride
    return layers


def samples_of(rows, channels):
    """The layer of whole pixels."""
    layer = np.empty((*rows.shape, channels), np.uint8)
    for c in range(channels):
        layer[..., ORDER[channels][c]] = rows >> 8 * (channels - 1 - c) & 255
    return layer


# --- 14


def animation(payload, shapes, spots):
    body, canvases = Bytes(payload), {}
    for canvas, (width, height), *_ in spots:
        if canvas not in canvases:
            clear = body.varint() - 1
            canvases[canvas] = [np.full((height, width), max(clear, 0), np.int64), clear, True]
    b, pixels = body.byte(), sum(h * w for h, w, _ in shapes)
    mixer = PixelMixer(pixels, pixels * shapes[0][2], body.rest(), Prior(shapes[0][2], False))
    start = max((h + 12) * (w + 12) for h, w, _ in shapes)
    flat, layers = [0] * (start + sum((h + 6) * (w + 12) for h, w, _ in shapes)), []
    for (height, width, channels), (canvas, _, (left, top), disposal, blending) in zip(shapes, spots):
        stride, (drawn, clear, is_blank) = width + 12, canvases[canvas]
        region = drawn[top : top + height, left : left + width]
        periods = [3, 3 * stride]
        if not is_blank:
            below = np.zeros((height + 12, stride), np.int64)
            below[6:-6, 6:-6], periods[0] = region, start
            flat[: below.size] = below.flatten().tolist()
        mixer.layer(flat, start + 6 * stride + 6, height, width, channels, b, periods, not is_blank)
        rows = np.array(flat[start : start + (height + 6) * stride]).reshape(-1, stride)[6:, 6:-6]
        layers.append(samples_of(rows, channels))
        if disposal != 2:
            region[:] = np.where((rows == clear) & (blending == 1), region, rows)
            canvases[canvas][2] = False
        start += (height + 6) * stride
    return layers


# --- 11


def model_mixing(payload, shapes, model):
    mixer = Mixer(sum(math.prod(shape) * -(-model.bits // 4) for shape in shapes), payload)
    layers = [np.empty(shape, np.uint8) for shape in shapes]
    for tiles in cut(shapes, model):
        walk = Walk(model, tiles)
        canvases = [canvas_of(h, w, model.channels) for *_, h, w in tiles]
        for front in fronts_of(tiles):
            pixels = walk.start(front)
            for p in range(model.channels):
                laws = [pixel.law(p) for pixel in pixels]
                for pixel, law in zip(pixels, laws):
                    canvas, y, x = canvases[pixel.tile], pixel.y + 2, pixel.x + 2
                    mixer.sample(canvas, y, x, p, model.bits, law)
                    pixel.learn(p, law, int(canvas[y, x, p]))
            walk.enter(pixels)
            walk.learn()
        put(layers, tiles, walk.arrays())
    return layers


# --- 12


def flow(payload, shapes, model):
    body, layers = Bytes(payload), [np.zeros(shape, np.uint8) for shape in shapes]
    strips, tiles = flow_tiles(shapes, model)
    particles, loan, seed_bytes = body.varint(), body.varint(), body.varint()
    lends = particles == 65
    growth, zeros = (body.varint(), 8) if lends else (0, 0)
    stack, program = Stack(body.rest()), Flow(model)
    batches, done = [], loan
    while done < len(tiles):
        *_, h, w = tiles[done]
        size = min(max(1, 393216 // (h * w * model.channels)), done // loan)
        batches.append([tile for tile in tiles[done : done + size] if tile[3:] == (h, w)])
        done += len(batches[-1])
    for batch in reversed(batches):
        put(layers, batch, program.pop(stack, len(batch), *batch[0][3:], 0 if lends else particles))
    first = strips + tiles[:loan]
    if lends:
        program.F = 0
        before = [model.channels * sum(h * w for *_, h, w in tiles[:number]) for number in range(loan)]
        for number, tile in reversed(list(enumerate(tiles[:loan]))):
            put(layers, [tile], Lender(program, before[number], growth).pop(stack, 1, *tile[3:]))
        first = strips
    seed_words = stack.save()
    seed = np.array(seed_words, "<u4").tobytes()[: seed_bytes + zeros]
    stack.check_seed(seed)
    assert seed[seed_bytes:] == bytes(zeros)
    shapes = [(h, w, model.channels) for *_, h, w in first]
    if first:
        seed = seed[:seed_bytes]
        put(layers, first, mixing(seed, shapes) if 0 < particles < 65 else pixel_mixing(seed, shapes, is_trained=True))
    return layers


def flow_tiles(shapes, model):
    """12.1: strips and tiles as (layer, top, left, height, width)."""
    multiple, strips, tiles = 1 << len(model.subflows), [], []
    for number, (height, width, _) in enumerate(shapes):
        core_h, core_w = height - height % multiple, width - width % multiple
        if core_w < width:
            strips.append((number, 0, core_w, height, width - core_w))
        if core_h < height:
            strips.append((number, core_h, 0, height - core_h, core_w))
        tiles += [
            (number, top, left, min(model.tile, core_h - top), min(model.tile, core_w - left))
            for top in range(0, core_h, model.tile)
            for left in range(0, core_w, model.tile)
        ]
    return strips, sorted(tiles, key=lambda tile: (-tile[3], -tile[4]))


def parts(count):
    size = max(1024, -(-count // 4))
    return [slice(start, start + size) for start in range(0, count, size)]


def pop(stack, sizes):
    return np.array(stack.pop(sizes), np.int64)


def scale(stack, g, S):
    flat, S, out = g.ravel(), np.broadcast_to(S, g.shape).ravel(), np.empty(g.size, np.int64)
    for part in parts(g.size):
        t = 1024 * flat[part] + pop(stack, [1024] * len(flat[part]))
        out[part] = t // S[part]
        stack.push(t % S[part], S[part])
    return out.reshape(g.shape)


def unscale(stack, g, S):
    flat, S, out = g.ravel(), np.broadcast_to(S, g.shape).ravel(), np.empty(g.size, np.int64)
    for part in reversed(parts(g.size)):
        t = flat[part] * S[part] + pop(stack, S[part])
        out[part] = t >> 10
        stack.push(t % 1024, [1024] * len(t))
    return out.reshape(g.shape)


class TableLaw:
    """12.2."""

    def __init__(self, model, name, is_unbounded=True):
        self.f, self.is_unbounded = model.tensors[f"{name}.frequencies"], is_unbounded
        self.first, self.low_bits = map(int, model.tensors[f"{name}.grid"])
        self.c = np.cumsum(self.f) - self.f

    def pop(self, stack, shape):
        out = np.empty(math.prod(shape), np.int64)
        for part in reversed(parts(out.size)):
            count = len(out[part])
            t = pop(stack, [1 << 20] * count)
            s = np.searchsorted(self.c, t, "right") - 1
            stack.push(t - self.c[s], self.f[s])
            low = pop(stack, [1 << self.low_bits] * count)
            escaped = self.is_unbounded & ((s == 0) | (s == len(self.f) - 1))
            if escaped.any():
                bits = pop(stack, [49] * int(escaped.sum()))
                rest = sum(pop(stack, 1 << np.clip(bits - 1 - 16 * j, 0, 16)) << 16 * j for j in (2, 1, 0))
                distance = (1 << bits >> 1) + rest
                s[escaped] += np.where(s[escaped] == 0, -distance, distance)
            out[part] = (s + self.first << self.low_bits) + low
        return out.reshape(shape)

    def push(self, stack, values):
        """Of a law that is not unbounded."""
        flat = values.ravel()
        for part in parts(flat.size):
            s = (flat[part] >> self.low_bits) - self.first
            stack.push(flat[part] % (1 << self.low_bits), [1 << self.low_bits] * len(s))
            r = pop(stack, self.f[s])
            stack.push(self.c[s] + r, [1 << 20] * len(s))

    def cost(self, values):
        """12.6, summed over each tile."""
        cell = (values >> self.low_bits) - self.first
        s = np.clip(cell, 0, len(self.f) - 1)
        total = [((20 + self.low_bits) << 24) - log2(int(self.f[each])) for each in s.ravel()]
        for place in np.flatnonzero(self.is_unbounded & ((s == 0) | (s == len(self.f) - 1)).ravel()):
            digits = int(abs(cell - s).ravel()[place]).bit_length()
            total[place] += log2(49) + (max(digits - 1, 0) << 24)
        return np.array(total, np.int64).reshape(len(values), -1).sum(1)


def to_input(g, grid):
    return np.clip(g + (1 << grid - 8 >> 1) >> grid - 8, -2048, 2048)


def highpass(a):
    padded = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)))
    h, w = a.shape[1:3]
    blur = sum(
        (1, 2, 1)[dy] * (1, 2, 1)[dx] * padded[:, dy : dy + h, dx : dx + w] for dy in range(3) for dx in range(3)
    )
    return np.clip(16 * a - blur + 2 >> 2, -2048, 2048)


def squeeze(g):
    B, H, W, C = g.shape
    out = np.empty((B, H // 2, W // 2, 4 * C), np.int64)
    for i in range(2):
        for j in range(2):
            out[..., 2 * i + j :: 4] = g[:, i::2, j::2]
    return out


def unsqueeze(g):
    B, H, W, C = g.shape
    out = np.empty((B, 2 * H, 2 * W, C // 4), np.int64)
    for i in range(2):
        for j in range(2):
            out[:, i::2, j::2] = g[..., 2 * i + j :: 4]
    return out


class Flow:
    """12.3 to 12.6."""

    def __init__(self, model):
        self.model, self.T, self.L, self.F = model, model.tensors, len(model.subflows), model.fraction_bits
        self.refinement = model.grid_bits - model.unit_bits - self.F
        self.offset = 1 << model.bits - 1 + self.F
        self.is_interlaced = model.description.get("mixtures", 0) > 0
        self.logistic = None if self.is_interlaced else TableLaw(model, "logistic")

    def pop(self, stack, B, H, W, particles):
        v = Interlaced(self).pop(stack, B, H, W) if self.is_interlaced else self.density(stack, B, H, W)
        if particles > 1:
            v = self.undo_choice(stack, v, particles)
        x = v >> self.F
        self.give_back(stack, v - (x << self.F), x)
        return x

    def conv(self, name, a, bias=True):
        weight = self.T[f"{name}.weight"]
        k, (h, w) = weight.shape[2], a.shape[1:3]
        padded = np.pad(a, ((0, 0), (k // 2, k // 2), (k // 2, k // 2), (0, 0)))
        return bias * self.T[f"{name}.bias"] + sum(
            padded[:, dy : dy + h, dx : dx + w] @ weight[..., dy, dx].T for dy in range(k) for dx in range(k)
        )

    def layer(self, name, a, bound):
        return rounded((self.conv(name, a), self.T[f"{name}.shift"]), bound)

    def result(self, name, h):
        return self.conv(f"{name}.out", leaky(h)) >> self.T[f"{name}.out.shift"]

    def residual(self, name, a, context=None):
        inputs = np.concatenate([a, highpass(a), *([] if context is None else [context])], -1)
        return self.result(name, self.blocks(name, inputs))

    def blocks(self, name, inputs):
        level, b = int(self.T[f"{name}.level"]), 0
        h = self.layer(f"{name}.in", inputs, level)
        while f"{name}.{b}.1.weight" in self.T:
            inner = self.layer(f"{name}.{b}.1", leaky(h), level)
            h = np.clip(h + self.layer(f"{name}.{b}.2", leaky(inner), 2 * level), -level, level)
            b += 1
        return h

    def autoregressive(self, name, a, context):
        level, shift = int(self.T[f"{name}.level"]), self.T[f"{name}.in.shift"]
        sums = self.conv(f"{name}.in", a) + self.conv(f"{name}.context", context, bias=False)
        h = leaky(rounded((sums, shift), level))
        h = np.clip(h + self.layer(f"{name}.mid", h, 2 * level), -level, level)
        return self.result(name, h)

    def m_and_S(self, result):
        m, raw = np.split(result, 2, -1)
        return np.clip(m, -(1 << 30), 1 << 30), self.T["scales"][np.clip(raw, -1024, 1024) + 1024]

    def coupling(self, name, g1):
        return self.m_and_S(self.residual(f"{name}.net", to_input(g1, self.model.grid_bits)))

    def density(self, stack, B, H, W):
        g = self.logistic.pop(stack, (B, H >> self.L, W >> self.L, self.model.channels << self.L))
        for level in reversed(range(self.L)):
            g = np.concatenate([g, self.logistic.pop(stack, g.shape)], -1)
            for i in reversed(range(self.model.subflows[level] + 1)):
                name = f"density.{level}.{i}"
                g1, g2 = np.split(g, 2, -1)
                m, S = self.coupling(name, g1)
                g = np.concatenate([g1, unscale(stack, g2, S) + m], -1)
                if i < self.model.subflows[level]:
                    g = self.undo_conv1x1(stack, name, g)
            g = unsqueeze(g)
        if self.refinement:
            stack.push((g % (1 << self.refinement)).ravel(), [1 << self.refinement] * g.size)
        return (g >> self.refinement) + self.offset

    def undo_conv1x1(self, stack, name, g):
        T, old, c = self.T, g, g.shape[-1]
        g = np.empty_like(old)
        g[..., T[f"{name}.permutation"]] = old
        for a in range(1, c):
            g[..., a] -= (g[..., :a] @ T[f"{name}.lower"][a, :a]) + (1 << 13) >> 14
        if f"{name}.sizes" in T:
            g = unscale(stack, g, T[f"{name}.sizes"]) * np.where(T[f"{name}.negative"], -1, 1)
        for a in reversed(range(c - 1)):
            g[..., a] -= (g[..., a + 1 :] @ T[f"{name}.upper"][a, a + 1 :]) + (1 << 13) >> 14
        return g

    def give_back(self, stack, u, x):
        """12.5."""
        model, kind = self.model, self.model.dequantizer
        if kind == "uniform":
            stack.push(u.ravel(), [1 << self.F] * u.size)
            return
        y = squeeze(self.cell_pop(stack, u))
        context = self.features(x)
        if kind != "gaussian":
            context = np.clip(self.residual("context", context), 0, 2048)
        for j in reversed(range(model.dequantizer_transforms)):
            name, is_turned = f"dequantizer.{j}", model.description.get("alternating") and j % 2
            if kind == "gaussian":
                m, S = self.m_and_S(self.residual(name, context))
                y = scale(stack, y - m, S)
            elif kind == "bipartite":
                y1, y2 = np.split(y[..., ::-1], 2, -1)
                m, S = self.m_and_S(self.residual(name, to_input(y1, model.noise_grid_bits), context))
                y = np.concatenate([y1, scale(stack, y2 - m, S)], -1)
            elif is_turned:
                y = self.undo_ard(stack, name, y[:, ::-1, ::-1, ::-1], context[:, ::-1, ::-1])[:, ::-1, ::-1, ::-1]
            else:
                y = self.undo_ard(stack, name, y, context)
        noise = "logistic_noise" if model.description.get("noise") == "logistic" else "normal"
        TableLaw(model, noise, is_unbounded=False).push(stack, y)

    def features(self, x):
        if self.model.description.get("features") != "standard":
            sums = squeeze(x - (1 << self.model.bits - 1)) @ self.T["features.matrix"].T
            return to_input(sums << 16 + self.T["features.log2_gain"], 16)
        a, h, w = planes_of(x), *x.shape[1:3]
        padded = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
        around = [padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3) if (i, j) != (1, 1)]
        mean = sum(around)
        spread = 32 + sum(abs(8 * each - mean) for each in around)
        features = np.concatenate([standards(a, mean, spread), log_spreads(spread)], -1)
        return squeeze(np.clip(8 * features, -2048, 2048))

    def cell_pop(self, stack, u):
        e, flat = self.T["sigmoid.edges"], u.ravel()
        y, outer = np.empty(flat.size, np.int64), (flat == 0) | (flat == (1 << self.F) - 1)
        distance = TableLaw(self.model, "tail").pop(stack, (int(outer.sum()),))
        y[outer] = np.where(flat[outer] == 0, e[0] - 1 - distance, e[-1] + distance)
        inner = flat[~outer]
        y[~outer] = e[inner - 1] + pop(stack, e[inner] - e[inner - 1])
        return y.reshape(u.shape)

    def undo_ard(self, stack, name, y, context):
        r, eps = pop(stack, [1024] * y.size).reshape(y.shape), np.zeros(y.shape, np.int64)
        while True:
            m, S = self.m_and_S(self.autoregressive(name, to_input(eps, self.model.noise_grid_bits), context))
            t = 1024 * (y - m) + r
            if np.array_equal(t // S, eps):
                stack.push((t % S).ravel(), S.ravel())
                return eps
            eps = t // S

    def undo_choice(self, stack, v, K):
        """12.6."""
        B, D = len(v), v[0].size
        c = particle_offsets(K, D, self.F).reshape(K, *v.shape[1:])
        chosen = pop(stack, [K] * B)
        v = self.shift(v, -c[chosen])
        weights = -np.stack([self.cost(self.shift(v, offsets)) for offsets in c], 1)
        begins, sizes = [], []
        for row, k in zip(weights, chosen):
            p = [exp2(int(w - row.max())) for w in row]
            size = [1 + each * ((1 << 22) - K) // sum(p) for each in p]
            size[int(row.argmax())] += (1 << 22) - sum(size)
            begins.append(sum(size[:k]))
            sizes.append(size[k])
        r = stack.pop(sizes)
        stack.push([begin + each for begin, each in zip(begins, r)], [1 << 22] * B)
        return v

    def shift(self, v, offsets):
        low = (1 << self.F) - 1
        return (v & ~low) + (v + offsets & low)

    def cost(self, v):
        stack, model, D = Middle(), self.model, v[0].size
        cost = np.full(len(v), D * model.unit_bits << 24)
        g = (v - self.offset << self.refinement) + (1 << self.refinement >> 1 if self.refinement else 0)

        def logs(S):
            table = {int(s): log2(int(s)) - (10 << 24) for s in np.unique(S)}
            return np.vectorize(table.__getitem__)(S).reshape(len(v), -1).sum(1)

        def taken(g):
            return self.logistic.cost(g) - (g[0].size * model.grid_bits << 24)

        for level in range(self.L):
            g = squeeze(g)
            for i in range(model.subflows[level] + 1):
                name, T = f"density.{level}.{i}", self.T
                if i < model.subflows[level]:
                    g = g + (g @ T[f"{name}.upper"].T + (1 << 13) >> 14)
                    if f"{name}.sizes" in T:
                        S = np.broadcast_to(T[f"{name}.sizes"], g.shape)
                        g = scale(stack, g * np.where(T[f"{name}.negative"], -1, 1), S)
                        cost = cost + logs(S)
                    g = g + (g @ T[f"{name}.lower"].T + (1 << 13) >> 14)
                    g = g[..., T[f"{name}.permutation"]]
                g1, g2 = np.split(g, 2, -1)
                m, S = self.coupling(name, g1)
                g = np.concatenate([g1, scale(stack, g2 - m, S)], -1)
                cost = cost + logs(S)
            g, out = np.split(g, 2, -1)
            cost = cost + taken(out)
        return cost + taken(g)


def planes_of(x):
    """9, of samples (..., C)."""
    return np.stack([x[..., 1], x[..., 0] - x[..., 1], x[..., 2] - x[..., 1]], -1) if x.shape[-1] == 3 else x.copy()


standards = np.vectorize(lambda value, mean, spread: standard(int(value), int(mean), int(spread)), otypes=[np.int64])
log_spreads = np.vectorize(lambda spread: log_spread(int(spread)), otypes=[np.int64])


class Interlaced:
    """12.7."""

    NEAR = [
        [tuple(map(int, pair)) for pair in re.findall(r"\((-?\d),(-?\d)\)", line)]
        for line in part("couplings").strip().splitlines()
    ]

    def __init__(self, flow):
        self.flow, self.model = flow, flow.model

    def pop(self, stack, B, H, W):
        flow, C = self.flow, self.model.channels
        v, step = np.zeros((B, H, W, C), np.int64), 1 << flow.L  # in the order of planes
        first = v[:, ::step, ::step]
        first[:] = pop(stack, [1 << self.model.bits + flow.F] * first.size).reshape(first.shape)
        for level in reversed(range(flow.L)):
            image = v[:, :: 1 << level, :: 1 << level]
            for n, (row, column) in enumerate([(1, 1), (0, 1), (1, 0)]):
                self.couple(stack, f"density.{level}.{n}", image, n, image[:, row::2, column::2], (row, column))
        return v[..., [1, 0, 2]] if C == 3 else v

    @staticmethod
    def differences(x):
        """Planes of symbols in their order."""
        return np.concatenate([x[..., :1], x[..., 1:] - x[..., :1]], -1)

    def couple(self, stack, name, image, n, own, place):
        flow, model, C = self.flow, self.model, self.model.channels
        planes, (_, h, w, _) = self.differences(image >> flow.F), image.shape

        def inside(r, end):
            q = abs(r) % (2 * end - 2)
            return np.minimum(q, 2 * end - 2 - q)

        y, x = np.arange(place[0], h, 2), np.arange(place[1], w, 2)
        a = [planes[:, inside(y + dy, h)][:, :, inside(x + dx, w)] for dy, dx in self.NEAR[n]]
        mean = 2 * sum(a[:4])
        away = [abs(8 * each - mean) for each in a]
        spread = 32 + (2 * sum(away[:4]) + sum(away[4:12])) // 2
        M = 1 << model.bits
        level = np.concatenate([(mean[..., :1] - 4 * M << 8 - model.bits) >> 4, mean[..., 1:]], -1)
        inputs = [*(standards(each, mean, spread) for each in a), log_spreads(spread), np.clip(level, -256, 256)]
        trunk, bound = leaky(flow.blocks(name, np.concatenate(inputs, -1))), int(flow.T[f"{name}.level"])
        limit = np.repeat([1 << 20, 4096, 1 << 14], model.mixtures)
        for p in range(C):
            sums = flow.conv(f"{name}.heads.{p}", trunk)
            if p:
                s = standards(self.differences(own >> flow.F)[..., :p], mean[..., :p], spread[..., :p])
                sums = sums + flow.conv(f"{name}.known.{p}", np.concatenate([s, np.clip(s, -32, 32)], -1), bias=False)
            head = leaky(rounded((sums, flow.T[f"{name}.heads.{p}.shift"]), bound))
            out = flow.conv(f"{name}.out.{p}", head) >> flow.T[f"{name}.out.{p}.shift"]
            out = np.clip(out, -limit, limit).reshape(-1, len(limit))
            offsets = (own[..., 0] >> flow.F).ravel() if p else [0] * len(out)
            rows = zip(out.tolist(), mean[..., p].ravel().tolist(), spread[..., p].ravel().tolist(), map(int, offsets))
            laws = [Law(model, None, o, 8 * m, s, g, M, lambda name, value: None) for o, m, s, g in rows]
            own[..., p] = self.values(stack, laws).reshape(own.shape[:3])

    def values(self, stack, laws):
        F, out = self.flow.F, np.empty(len(laws), np.int64)
        for part in reversed(parts(len(laws))):
            some = laws[part]
            slots = stack.pop([1 << 19] * len(some))
            symbols = [law.find(t) for law, t in zip(some, slots)]
            starts = [law.start(x) for law, x in zip(some, symbols)]
            sizes = [law.start(x + 1) - start for law, x, start in zip(some, symbols, starts)]
            stack.fine_push([t - start for t, start in zip(slots, starts)], sizes)
            edges, slots = [law.edges(x) for law, x in zip(some, symbols)], stack.pop([1 << 16] * len(some))
            cells = [max(j for j in range(16) if edge[j] <= t) for edge, t in zip(edges, slots)]
            stack.push(
                [t - edge[j] for edge, j, t in zip(edges, cells, slots)],
                [edge[j + 1] - edge[j] for edge, j in zip(edges, cells)],
            )
            rest = stack.pop([1 << F - 4] * len(some))
            out[part] = [(x << F) + (j << F - 4) + r for x, j, r in zip(symbols, cells, rest)]
        return out


class Lender(Interlaced):
    """12.7: the symbols' pop. below: the symbols of the tiles before."""

    def __init__(self, flow, below, growth):
        super().__init__(flow)
        self.below, self.growth = below, growth

    def pop(self, stack, B, H, W):
        self.below += (H * W - (H >> self.flow.L) * (W >> self.flow.L)) * self.model.channels
        return super().pop(stack, B, H, W)

    def values(self, stack, laws):
        self.below -= len(laws)
        parts, start, out = [], 0, np.empty(len(laws), np.int64)
        while start < len(laws):
            size = min(max(1, self.below + start >> self.growth), 1024, len(laws) - start)
            parts.append(slice(start, start + size))
            start += size
        for part in reversed(parts):
            some = laws[part]
            slots = stack.pop([1 << 19] * len(some))
            out[part] = [law.find(t) for law, t in zip(some, slots)]
            starts = [law.start(x) for law, x in zip(some, out[part].tolist())]
            ends = [law.start(x + 1) for law, x in zip(some, out[part].tolist())]
            stack.fine_push([t - low for t, low in zip(slots, starts)], [end - low for low, end in zip(starts, ends)])
        return out


class Middle:
    """12.6: a stack whose pops give the middle."""

    def pop(self, sizes):
        return [int(size) >> 1 for size in sizes]

    def push(self, symbols, sizes):
        pass


def log2(n):
    w = n.bit_length() - 1
    a, digits = n << 31 - w, 0
    for _ in range(24):
        a = a * a >> 31
        bit = a >> 32
        a, digits = a >> bit, 2 * digits + bit
    return (w << 24) + digits


def exp2(x):
    p, power = 1 << 30, 1 << 61
    for d in range(1, 25):
        power = math.isqrt(power << 62)
        if -x >> 24 - d & 1:
            p = p * (power >> 32) >> 30
    return p >> min(-x >> 24, 62)


def particle_offsets(K, D, F):
    """c_k of every dimension (K, D)."""
    hashes = []
    for number in range(1, K * D + 1):
        z = number * 0x9E3779B97F4A7C15 & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        hashes.append(z ^ z >> 31)
    columns = [hashes[j::D] for j in range(D)]
    places = [[sorted(column).index(z) for z in column] for column in columns]
    return np.array(
        [[((place - column[0]) % K << F) // K for column in places for place in [column[k]]] for k in range(K)]
    )


# --- 16


def packed_again(head: Head, samples) -> bytes:
    """The PNG file of a recipe."""
    fields, depth, chunks = Bytes(head.recipe), head.depth, head.chunks
    packing, deflate, stream, checksum = fields.byte(), fields.byte(), fields.take(2), fields.take(8)
    interlace, level, memory = packing & 1, packing >> 1 & 15, 9 if packing >> 5 & 1 else 8
    count, cuts = fields.varint(), []
    if count >= 2:
        first = fields.varint()
        if first:
            cuts = [first - 1, *(fields.varint() - 1 for _ in range(count - 2))]
        else:
            cuts = [fields.varint()] * (count - 1)
    passes = [samples]
    if interlace:
        adam7 = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
        passes = [samples[top::down, left::right] for top, left, down, right in adam7]
    rows = [packed_rows(each, depth) for each in passes if each.size]
    kinds = row_filters(fields.byte(), fields.rest(), sum(map(len, rows)))
    distance, filtered = max(1, depth * SAMPLES[head.color_type] // 8), b""
    for each in rows:
        for y, row in enumerate(each):
            kind, above = next(kinds), each[y - 1] if y else bytes(len(row))
            filtered += bytes([kind]) + filtered_row(kind, row, above, distance)
    compressor = zlib.compressobj(level, zlib.DEFLATED, deflate >> 3 & 15, memory, deflate & 7)
    stream += (compressor.compress(filtered) + compressor.flush())[2:]
    out = [
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", struct.pack(">IIBBBBB", *head.size, depth, head.color_type, 0, 0, interlace)),
    ]
    out += [chunk(*each) for each in chunks[0]]
    for size in cuts:
        out.append(chunk(b"IDAT", stream[:size]))
        stream = stream[size:]
    out += [chunk(b"IDAT", stream), *(chunk(*each) for each in chunks[1] if each[0]), chunk(b"IEND", b"")]
    out += [body for kind, body in chunks[1] if not kind]
    file = b"".join(out)
    assert hashlib.sha256(file).digest()[:8] == checksum
    return file


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def packed_rows(samples, depth):
    bits = (samples.reshape(len(samples), -1, 1).astype(np.int64) >> np.arange(depth)[::-1]) & 1
    return [row.tobytes() for row in np.packbits(bits.reshape(len(samples), -1).astype(np.uint8), axis=1)]


def row_filters(form: int, rest: bytes, count: int):
    if form < 5:
        return iter([form] * count)
    if form == 6:
        return iter(zlib.decompressobj(-15).decompress(rest))
    number, digits = int.from_bytes(rest, "little"), []
    for _ in range(count):
        number, digit = divmod(number, 5)
        digits.append(digit)
    return iter(digits)


def filtered_row(kind: int, row: bytes, above: bytes, distance: int) -> bytes:
    """The filters of PNG."""
    left, corner = bytes(distance) + row, bytes(distance) + above
    out = []
    for value, a, b, c in zip(row, left, above, corner):
        p = a + b - c
        paeth = min((a, b, c), key=lambda near: abs(p - near))
        out.append((value - (0, a, b, (a + b) // 2, paeth)[kind]) % 256)
    return bytes(out)


# --- 17


def decode_archive(data: bytes, models: Models) -> dict[str, Decoded]:
    """By names, group after group; png is the content of a file that is kept verbatim."""
    assert data[:5] == b"\x89DQA\2"
    own, position = read_models(data, 5)
    models = models | {id: ChangedModel(models[base], changes) for id, (base, changes) in own.items()}
    found, groups, archive_id = {}, [], data[-16:-12]
    while data[position : position + 4] == b"\x89DQG":
        start = position
        header, body, position = read_frame(data, start, len(groups))
        assert data[start + 4 : start + 8] == archive_id
        decoded = decode_group(header, body, models)
        found |= decoded
        groups.append((start, position - start, list(decoded)))
    end = data[-20:]
    assert end[:4] == b"\x89DQE" and zlib.crc32(end[:-4]) == int.from_bytes(end[-4:], "little")
    assert (groups or archive_id == bytes(4)) and int.from_bytes(end[8:12], "little") == len(groups)
    assert position + int.from_bytes(end[12:16], "little") == len(data) - 20
    index, position = read_index(data[:-20], position, len(groups))
    assert index == groups and read_models(data, position) == (own, len(data) - 20)
    return found


def read_models(data: bytes, position: int) -> tuple[dict[bytes, tuple[bytes, bytes]], int]:
    """Model id -> (id of the base, changes) of the models at a place, and the place after them."""
    found = {}
    while data[position : position + 4] == b"\x89DQM":
        header, body, position = read_frame(data, position, len(found))
        ids, changes = (unpack(Bytes(each[1:]).section(), each[0]) for each in (header, body))
        assert hashlib.sha256(ids[8:] + changes).digest()[:8] == ids[:8] and len(ids) == 16
        found[ids[:8]] = ids[8:], changes
    return found, position


def read_index(data: bytes, position: int, count: int) -> tuple[list[tuple[int, int, list[str]]], int]:
    """(start, bytes, names) of each group, and the place after the index."""
    groups = []
    while data[position : position + 4] == b"\x89DQI":
        header, _, position = read_frame(data, position, len(groups))
        outer = Bytes(header)
        packing = outer.byte()
        block = Bytes(unpack(outer.section(), packing))
        assert block.varint() == count
        start = int.from_bytes(block.take(8), "little")
        for _ in range(block.varint()):
            length, names = block.varint(), []
            while block.data[block.position]:
                names.append(read_name(block))
            block.byte()
            groups.append((start, length, names))
            start += length
    return groups, position


def read_frame(data: bytes, start: int, number: int) -> tuple[bytes, bytes, int]:
    """(header, body, position after it) of a frame."""
    frame = Bytes(data[start:])
    frame.take(8)
    assert frame.varint() == number
    header_bytes, body_bytes = frame.varint(), frame.varint()
    header, before = frame.take(header_bytes), frame.position
    crc = zlib.crc32(frame.data[:before])
    assert crc == int.from_bytes(frame.take(4), "little")
    body = frame.take(body_bytes)
    assert not body or zlib.crc32(body, crc) == int.from_bytes(frame.take(4), "little")
    return header, body, start + frame.position


def signed(code: int) -> int:
    return -(code + 1) // 2 if code % 2 else code // 2


def read_name(body: Bytes) -> str:
    name = body.take(body.data.index(b"\0", body.position) - body.position)
    body.byte()
    return name.decode("utf-8", "surrogateescape")


def decode_group(header: bytes, body: bytes, models: Models) -> dict[str, Decoded]:
    outer = Bytes(header)
    packing = outer.byte()
    head = Bytes(unpack(outer.section(), packing))
    members, contents, last = head.varint(), [], -1
    for _ in range(members):
        last += 1 + signed(head.varint())
        contents.append(last)
    names = [read_name(head) for _ in range(members)]
    for _ in range(members):
        head.varint(), head.varint()  # times
    for _ in range(members):
        head.varint()  # modes
    sets = [read_heads(head, head.varint()) for _ in range(head.varint())]
    inner, decoded = Bytes(body), []
    for number, heads in enumerate(sets):
        part = Bytes(inner.rest() if number == len(sets) - 1 else inner.section())
        if heads:
            decoded += decode_set(part, heads, models, lambda name, value: None)
        else:
            checksum, packing = part.take(8), part.byte()
            file = unpack(part.section(), packing)
            assert hashlib.sha256(file).digest()[:8] == checksum
            decoded.append(Decoded(file, [], []))
    return {name: decoded[content] for name, content in zip(names, contents)}


# --- 13

FINE = [bisect.bisect_left(SQUASH, j) - 2815 for j in range(65536)]


def distribution(k):
    if abs(k) == 2048:
        return float(k > 0)
    z = k / 32
    sine = z / 2 / math.sqrt(z * z / 4 + 1)
    return 0.5 + sine * (3 - sine * sine) / 4


T = [distribution(k) for k in range(-2048, 2049)]
QUANTILE = [0.0] + [
    (bisect.bisect_left(T, (2 * (node - (1 << node.bit_length() - 1)) + 1) / (1 << node.bit_length())) - 2048) / 32
    for node in range(1, 32)
]
OWN = [(0, -1), (-1, 0), (-1, -1), (-1, 1), (0, -2), (-2, 0), (-1, 2), (-1, -2), (-2, 1), (-2, -1), (0, -3), (-3, 0)]
OWN += [(-2, 2), (-2, -2), (-1, 3), (-1, -3), (-3, 1), (-3, -1), (0, -4), (-3, 2), (-3, -2), (-2, 3), (-2, -3), (-1, 4)]
OTHER = [(0, 0), (0, -1), (-1, 0), (0, 1), (1, 0)]


def clamp(a, low, high):
    return min(max(a, low), high)


def level_of(a):
    b, level = 8 * a + 1, 0
    while b >= 2:
        b, level = b / 2, level + 4
    return level + sum(b >= edge for edge in (1.1875, 1.40625, 1.6875))


def class_of(a):
    k = sum(abs(a) > edge for edge in (0.3125, 0.8125, 1.75))
    return 3 + k if a > 0 else 3 - k


def expert_hash(a, b):
    m = (a + b) * 0xE7037ED1A0B428DB & MASK
    return m ^ m >> 29


def share(b, h, a):
    return 0 if a - b < 1e-7 else clamp(math.floor((a - h) / (a - b) * 65536), 1, 65535)


class Fit:
    def __init__(self, n, decay, persistence):
        self.n, self.decay, self.p, self.col = n, decay, persistence, {}
        self.places = [(i, j) for i in range(n + 1) for j in range(min(i, n - 1) + 1)]
        self.M = dict.fromkeys(self.places, 0.0)
        self.start()

    def start(self):
        self.above, self.left = dict.fromkeys(self.places, 0.0), dict.fromkeys(self.places, 0.0)

    def advance(self, x, is_fitted):
        p, n, M = self.p, self.n, self.M
        s = p * p
        zero = dict.fromkeys(self.places, 0.0)
        columns = [self.col.get(x + k, zero) for k in range(3)]
        for e in self.places:
            above = self.above[e] * p + columns[2][e] * s
            above = above + columns[1][e] * (p - s * p)
            self.above[e] = above + columns[0][e] * (1 - s)
        if not is_fitted:
            return
        for e in self.places:
            M[e] = self.above[e] + self.left[e]
        for k in range(n):
            pivot = 1 / max(M[k, k] + 1 / 16, 1 / 1024)
            column = {}
            for i in range(k + 1, n + 1):
                column[i] = M[i, k]
                M[i, k] = factor = column[i] * pivot
                for j in range(k + 1, min(i, n - 1) + 1):
                    M[i, j] = M[i, j] - factor * column[j]

    def predicted(self, v, m):
        r, total = [self.M[self.n, i] for i in range(m)], 0.0
        for i in reversed(range(m)):
            total = total + r[i] * v[i]
            for k in range(i):
                r[k] = r[k] - self.M[i, k] * r[i]
        return total

    def remember(self, x, u, gain):
        col = self.col.setdefault(x, dict.fromkeys(self.places, 0.0))
        for i, j in self.places:
            e = u[i] * gain * u[j]
            self.left[i, j] = self.left[i, j] * self.decay + e
            col[i, j] = col[i, j] * self.decay + e


class Experts:
    """What is learned, and the arithmetic coder."""

    def __init__(self, code):
        self.mixer = Mixer(0, code)
        self.weights, self.finals, self.counts, self.cells, self.biases, self.intensities = {}, {}, {}, {}, {}, {}
        self.owners, self.done = {}, 0

    def layer(self, shape, ranges, zeros):
        H, W, C = shape
        self.S, self.E, self.K = {}, {}, {}
        layer = np.zeros(shape, np.uint16)
        for c, (least, step, largest) in enumerate(ranges):
            if largest:
                self.is_sharp = c == 0 and zeros == 2
                self.channel(H, W, c, largest, 8 if c else 24 if zeros == 1 else 12)
            for y in range(H):
                for x in range(W):
                    layer[y, x, ORDER[C][c]] = least + step * self.s(y, x, c)
        return layer

    def s(self, y, x, c):
        return self.S.get((y, x, c), 0)

    def channel(self, H, W, c, largest, own):
        n = own + 5 * c
        self.c, self.largest, self.n = c, largest, n
        self.short, self.long = Fit(n, 23 / 32, 5 / 8), Fit(n, 63 / 64, 31 / 32)
        self.A, self.D, self.G, self.g, self.h = {}, {}, 1.0, 0.5, 0.5
        for y in range(H):
            for x in range(-4, 0):
                self.S[y, x, c] = self.s(y - 1, 0, c)
                for i in range(9):
                    self.A[i, y, x] = self.a(i, y - 1, 0) if y else 1.0
            self.short.start()
            self.long.start()
            for x in range(W):
                if y == 0:
                    for up in range(-3, 0):
                        for right in range(4):
                            self.S[up, x + right, c] = self.s(0, x - 1, c)
                self.sample(y, x)
            for x in range(W, W + 4):
                self.S[y, x, c] = self.s(y, W - 1, c)
                for i in range(9):
                    self.A[i, y, x] = self.A[i, y, W - 1]
        for x in range(-4, W + 4):
            self.S[H, x, c] = self.s(H - 1, x, c)

    def a(self, i, y, x):
        return self.A.get((i, y, x), 1.0)

    def mean(self, y, x, c):
        sides = self.s(y, x - 1, c) + self.s(y - 1, x, c)
        return sides * 0.375 + (self.s(y - 1, x - 1, c) + self.s(y - 1, x + 1, c)) * 0.125

    def sample(self, y, x):
        c, largest, n = self.c, self.largest, self.n

        def at(dy, dx, channel=c):
            return self.s(y + dy, x + dx, channel)

        def k(dy, dx, channel):
            return self.K.get((y + dy, x + dx, channel), 3)

        W, N, NW, NE = at(0, -1), at(-1, 0), at(-1, -1), at(-1, 1)
        mean = self.mean(y, x, c)
        v = [at(*place) - mean for place in OWN[:4]]
        for b in range(c):
            v += [at(*place, b) - self.mean(y, x, b) for place in OTHER]
        v += [at(*place) - mean for place in OWN[4 : n - 5 * c]]
        self.short.advance(x, True)
        self.long.advance(x, (x + 4) % 8 == 0)
        f = 4 + 5 * c
        P = [mean + self.short.predicted(v, m) for m in (f, f + 4, n)] + [
            mean + self.long.predicted(v, m) for m in (f, n)
        ]
        P += [float(sorted([W, N, W + N - NW])[1]), mean, float(W + (NE - N))]
        if c:
            P[6] = (W + N) * 0.5 + at(0, 0, c - 1) - (at(0, -1, c - 1) + at(-1, 0, c - 1)) * 0.5
        P = [clamp(p, 0.0, float(largest)) for p in P]

        def near(i):
            def a(dy, dx):
                return self.a(i, y + dy, x + dx)

            total = a(0, -1) * 2 + a(-1, 0) * 2 + a(-1, -1) + a(-1, 1) + a(0, -2) + a(-1, 2) * 0.5
            return total * 0.125

        nears, total, weights, spread = [near(i) for i in range(9)], 0.0, 0.0, 0.0
        for i in range(8):
            w = 1 / (nears[i] + 1 / 64)
            w = w * w
            weights, total = weights + w, total + w * P[i]
        blend, error = total / weights, nears[8]
        for i in range(8):
            spread = spread + abs(P[i] - blend)
        spread = spread * 0.125
        facts = [a > blend for a in (W, N, NE, NW, 2 * W - at(0, -2), 2 * N - at(-2, 0))]
        if c:
            facts.append(2 * at(0, 0, c - 1) > at(0, -1, c - 1) + at(-1, 0, c - 1))
        pattern = sum(fact << i for i, fact in enumerate(facts))
        last = k(0, 0, c - 1) if c else k(-1, 1, 0)
        keys = [
            128 * c + pattern,
            512 * c + 16 * min(level_of(error) >> 1, 31) + min(level_of(spread) >> 2, 15),
            ((7 * c + k(0, -1, c)) * 7 + k(-1, 0, c)) * 7 + last,
        ]
        biases, bias = [self.biases.setdefault((i, key), [0.0, 0.0]) for i, key in enumerate(keys)], 0.0
        for each in biases:
            bias = bias + each[0] / (each[1] + 4)
        place = clamp(blend + bias * 0.3125 * (error + 1 / 16), 0.0, float(largest))
        scale = max(error * 0.625 + spread * 0.5, 1 / 32)
        bright, level = math.floor(place * 63 / largest), min(level_of(scale), 63)
        other = 0.0
        if c:
            e = [self.E.get((y + dy, x + dx, c - 1), 0.0) for dy, dx in ((0, 0), (0, -1), (0, 1), (-1, 0), (1, 0))]
            other = (e[0] * 2 + e[1] + e[2] + e[3] + e[4]) * 0.1875
        wide = 0.0
        for column in range(x - 2, x + 4):
            wide = wide + self.D.get(column, 1.0)
        wide = wide * 0.09375 + self.G * 0.4375
        intensity = self.intensities.setdefault((c, bright), [1.0, 1.0])
        places = [place, place, place, P[2], P[4], P[5], place, place if c else P[6]]
        scales = [scale, scale * 3] + [
            max(a, 1 / 32) for a in (wide, nears[2], nears[4], nears[5], intensity[0] / intensity[1])
        ]
        scales.append(max((other + 1 / 8) * self.g / self.h if c else nears[6], 1 / 32))
        inverses = [1 / a for a in scales]
        if self.is_sharp:
            places[1], places[2], places[6], places[7] = N + NE - at(-2, 1), 2 * W - at(0, -2), 2 * N - at(-2, 0), P[7]
            for i in (1, 2, 6, 7):
                inverses[i] = 4.0

        part = 1 + math.floor((place - math.floor(place)) * 7) if scale < 4 else 0
        first, second, third = (class_of((P[i] - place) * inverses[0]) for i in (2, 4, 5))
        contexts = [
            (8 * c + part) * 64 + level,
            keys[2],
            4 * keys[0] + min(level >> 3, 3),
            ((7 * c + first) * 7 + second) * 7 + third,
            ((8 * c + last) * 8 + (1 + k(0, 0, c - 2) if c > 1 else 0)) * 8 + min(level >> 3, 7),
        ]
        hashes = [expert_hash(expert_hash(c, N - W), NE - W)]
        value = expert_hash(expert_hash(expert_hash(hashes[0], NW - W), at(0, -2) - W), at(-2, 0) - W)
        hashes.append(expert_hash(value, at(0, 0, c - 1) - at(0, -1, c - 1) if c else 0))
        sets = 64 * c, 8 * level, 8 * (32 * c + (min(level_of(other if c else spread), 63) >> 1))

        def below(i, t):
            a = (t - 0.5 - places[i]) * inverses[i] * 32 + 2048
            if a < 0 or a >= 4096:
                return float(a >= 4096)
            cell = math.floor(a)
            return T[cell] + (T[cell + 1] - T[cell]) * (a - cell)

        low, end, node, steps = 0, largest + 1, 1, 0
        b, a = [below(i, 0) for i in range(8)], [below(i, end) for i in range(8)]
        self.done += 1
        self.rate = 5 + 20480 // (1024 + self.done)
        while end - low > 1:
            asked = self.candidate(places, low, end) if self.is_sharp else None
            if asked:
                t, question = asked
            elif node < 32:
                t = math.floor(place + scale * QUANTILE[node]) + 1
                if t <= low or t >= end:
                    node = 2 * node + (t <= low)
                    continue
                question = node
            elif low > 0 and end <= largest and self.is_sharp:
                t, question = (low + end) >> 1, 0
            elif low > 0 and end <= largest:
                t = (low + end) >> 1
                half = below(0, t)
                if self.mixer.bit(clamp(share(b[0], half, a[0]) or 32768, 64, 65472)):
                    low, b[0] = t, half
                else:
                    end, a[0] = t, half
                continue
            else:
                steps += 1
                is_upper = low > 0 or end > place
                distance = scale * QUANTILE[31] * 2.0 ** min(steps, 20)
                t = math.floor(place + distance if is_upper else place - distance) + 1
                if t <= low or t >= end:
                    t = (low + end) >> 1
                question = 32 + 2 * (min(steps, 8 if self.is_sharp else 16) - 1) + is_upper
            h = [below(i, t) for i in range(8)]
            shares = [share(*each) for each in zip(b, h, a)]
            gap = (t - W) * 1024 + 32 * min(end - t, 31) + min(t - low, 31)
            bit = self.decision(question, shares, contexts, hashes, gap, sets, level)
            low, b, end, a = (t, h, end, a) if bit else (low, b, t, h)
            if question == node:
                node = 2 * node + bit

        self.S[y, x, c] = low
        size = abs(low - place)
        for i in range(9):
            self.A[i, y, x] = abs(low - P[i]) if i < 8 else size
            if y == 0:
                self.A[i, -1, x + 1] = self.A[i, -1, x + 2] = self.A[i, 0, x]
        self.E[y, x, c], self.K[y, x, c] = float(f32(size)), class_of((low - place) * inverses[0])
        self.D[x] = self.D.get(x, 1.0) + (size - self.D.get(x, 1.0)) * 0.25
        self.G = self.G + (size - self.G) * 0.09375
        self.g = self.g * (1023 / 1024) + size
        self.h = self.h * (1023 / 1024) + other + 0.125
        standard = clamp((low - blend) / (error + 1 / 16), -4.0, 4.0)
        for entry, added, most in (*((each, standard, 200) for each in biases), (intensity, size, 400)):
            entry[0], entry[1] = entry[0] + added, entry[1] + 1
            if entry[1] > most:
                entry[0], entry[1] = entry[0] * 0.5, entry[1] * 0.5
        self.short.remember(x, [*v, low - mean], 1 / (error * (error + 1 / 8) + 1))
        self.long.remember(x, [*v, low - mean], 1 / (error + 1))

    @staticmethod
    def candidate(places, low, end):
        for i, law in enumerate((7, 3, 5, 1, 2, 6, 4, 0)):
            whole = math.floor(places[law] + 0.5)
            if low <= whole < end:
                return (whole, 48 + 2 * i) if whole > low else (whole + 1, 49 + 2 * i)
        return None

    def decision(self, node, shares, contexts, hashes, gap, sets, level):
        inputs = [FINE[q] if q else 0 for q in shares]
        keys = [(i, context, node) for i, context in enumerate(contexts)]
        for i, value in enumerate(hashes):
            m = expert_hash(value, gap) * 0xA0761D6478BD642F & MASK
            keys.append((5 + i, m >> 48))
            if self.owners.get(keys[-1], 0) != (m >> 24) % 65536:
                self.owners[keys[-1]] = (m >> 24) % 65536
                self.counts[keys[-1]] = 0, 0
        for key in keys:
            p, uses = self.counts.get(key, (0, 0))
            inputs.append(FINE[p >> 6] if uses else 0)
        inputs.append(256)
        depth = node.bit_length()
        places = sets[0] + node, sets[1] + depth, sets[2] + depth
        rows = [self.weights.setdefault((m, row), [7168] * 8 + [3277] * 8) for m, row in enumerate(places)]
        final = self.finals.setdefault((self.c, depth), [21845] * 3)

        def mixed(weights, values):
            return clamp(sum(w * a for w, a in zip(weights, values)) >> 16, -2815, 2815)

        logits = [mixed(row, inputs) for row in rows]
        logit = mixed(final, logits)
        mixture, k, r = squash(logit), (logit + 2815) // 176, (logit + 2815) % 176
        spots = (0, 64 * node + level), (1, 64 * (contexts[1] % 49) + node)

        def cell(spot, k):
            return self.cells.get((spot, k), 64 * squash(min(176 * k - 2815, 2815)))

        refined = sum(cell(spot, k) for spot in spots) * (176 - r) + sum(cell(spot, k + 1) for spot in spots) * r
        bit = self.mixer.bit(clamp((2 * mixture + refined // 11264) >> 2, 16, 65520))
        pairs = [(row, inputs, each, self.rate) for row, each in zip(rows, logits)] + [(final, logits, logit, 2)]
        for weights, values, each, rate in pairs:
            step = (65536 * bit - squash(each)) * rate >> 4
            for i, a in enumerate(values):
                weights[i] += (a * step + 8192) >> 14
        target = 4194240 * bit
        k += 2 * r > 176
        for spot in spots:
            self.cells[spot, k] = cell(spot, k) + ((target - cell(spot, k)) >> 6)
        for key in keys:
            p, uses = self.counts.get(key, (0, 0))
            p = p if uses else 2097152
            p += (target - p) * rate_of(uses) >> 16
            self.counts[key] = p, min(uses + 1, 250 if key[0] < 5 else 60)
        return bit


def experts(payload, shapes):
    body = Bytes(payload)
    heads = []
    for shape in shapes:
        ranges, zeros = [], 0
        for channel in range(shape[2]):
            least, step = body.varint(), body.varint()
            while channel == 0 and step == 0:
                zeros, step = zeros + 1, body.varint()
            ranges.append((least, step, body.varint()))
        heads.append((ranges, zeros))
    learned = Experts(body.rest())
    return [learned.layer(shape, *head) for shape, head in zip(shapes, heads)]


# --- 15

ZIGZAG = sorted(range(64), key=lambda p: (p // 8 + p % 8, (p // 8 if (p // 8 + p % 8) % 2 else p % 8)))
K1 = """16 11 10 16 24 40 51 61 12 12 14 19 26 58 60 55 14 13 16 24 40 57 69 56 14 17 22 29 51 87 80 62 18 22 37 56 68 109 103 77
24 35 55 64 81 104 113 92 49 64 78 87 103 121 120 101 72 92 95 98 112 100 103 99"""
K2 = "17 18 24 47 99 99 99 99 18 21 26 66 99 99 99 99 24 26 56 99 99 99 99 99 47 66" + 38 * " 99"
BASES = [[int(step) for step in text.split()] for text in (K1, K2)]
SAMPLINGS = [(1, 1, True), (2, 2, True), (1, 2, True), (2, 1, True), (2, 2, False), (1, 2, False)]


def size_of(n):
    d = 0
    while n >= 5 and n >> d > 7:
        d += 1
    return n if n < 5 else min(31, 4 * d + (n >> d))


def within(n, m):
    return clamp(n, -m, m)


def beside(*pairs):
    """a.b [m]: the first number, then (number, bits) of the others."""
    number = pairs[0]
    for other, bits in pairs[1:]:
        number = (number << bits) + other
    return number


class JpegMixer:
    """What the method jpeg learns, and its decisions."""

    def __init__(self, levels, code):
        self.bits, self.done = min(18, levels.bit_length()), 0
        self.coder = Mixer(1, code)
        self.counters, self.stages, self.weights, self.finals = Counters(), Stages(), {}, {}

    def set(self, seed, keys, values):
        values = [*values, *[0] * (16 - len(values))]
        self.keys, self.hashes = keys, [hash_of(seed, (i << 24) + value) for i, value in enumerate(values)]

    def decide(self, node, kind):
        self.done += 1
        rate = 12 + 20480 // (1024 + self.done)
        places = [(i, place_of(hash_of(h, node), self.bits)) for i, h in enumerate(self.hashes)]
        inputs = [*map(self.counters.logit, places), 256]
        rows = [self.weights.setdefault((k, key, kind), [19660] * 17) for k, key in enumerate(self.keys)]
        logits = [logit_of(row, inputs) for row in rows]
        final = self.finals.setdefault(kind, [21845] * 3)
        logit = logit_of(final, logits)
        refined, cell = self.stages.look((self.keys[0], kind), logit)
        bit = self.coder.bit(clamp(squash(logit) + refined >> 1, 32, 65504))
        self.stages.learn((self.keys[0], kind), cell, bit)
        learn_weights(final, logits, 65535 * bit - squash(logit), 2)
        for row, own in zip(rows, logits):
            learn_weights(row, inputs, 65535 * bit - squash(own), rate)
        for place in places:
            self.counters.count(place, bit)
        return bit

    def number(self):
        if not self.decide(0, 0):
            return 0
        is_negative, d, a = self.decide(1, 1), 1, 1
        while d < 13 and self.decide(1 + d, min(5, 1 + d)):
            d += 1
        for t in range(d - 2, -1, -1):
            a = 2 * a + self.decide(16 + 256 * d + 16 * min(a, 7) + t, 6)
        return -a if is_negative else a


def last_of(block):
    return max((z for z in range(1, 64) if block[ZIGZAG[z]]), default=0)


def jpeg_levels(mixer, rows, columns, k, steps, other, factors):
    """Blocks of a component by (row, column): lists of 64 levels."""
    blocks, lasts, numbers, none = {}, {}, {}, [0] * 64
    across = [1024] + [1448] * 7
    turned = [(-1) ** i * w for i, w in enumerate(across)]
    for row in range(rows):
        for column in range(columns):
            block = [0] * 64
            A, L, D, E = (blocks.get((row + i, column + j), none) for i, j in ((-1, 0), (0, -1), (-1, -1), (-1, 1)))
            X = none
            if k:
                last_row, last_column = max(other)
                X = other[min(factors[0] * row, last_row), min(factors[1] * column, last_column)]
            above, left = lasts.get((row - 1, column), 0), lasts.get((row, column - 1), 0)
            above, left = above if row else left, left if column else above
            far, both = last_of(X), above + left + 1 >> 1
            values = [0, both, beside(above, (left, 6)), above, left, beside(far, (both, 6)), far]
            values.append(beside(both >> 2, (abs(above - left) >> 2, 6)))
            mixer.set(hash_of(1, k), (64 + k, 32 + (both >> 3), 32 + (far >> 3)), values)
            node = 1
            for kind in range(6):
                node = 2 * node + mixer.decide(node, kind)
            last, seen, energy, n = node - 64, 0, 0, min(k, 1)
            lasts[row, column] = last
            for z in range(last, -1, -1):
                p = ZIGZAG[z]
                v, u = divmod(p, 8)
                down = side = 0
                if row:
                    t = sum(turned[i] * A[8 * i + u] * steps[8 * i + u] for i in range(8))
                    t -= sum(across[i] * block[8 * i + u] * steps[8 * i + u] for i in range(v + 1, 8))
                    s = steps[p] * across[v]
                    down = (4 * t + s) // (2 * s)
                if column:
                    t = sum(turned[i] * L[8 * v + i] * steps[8 * v + i] for i in range(8))
                    t -= sum(across[i] * block[8 * v + i] * steps[8 * v + i] for i in range(u + 1, 8))
                    s = steps[p] * across[u]
                    side = (4 * t + s) // (2 * s)
                a, left_level, d, e, x = A[p], L[p], D[p], E[p], X[p]
                total = size_of(energy)
                if z:

                    def at(i, j):
                        return block[8 * i + j] if i < 8 and j < 8 else 0

                    below, right, inner = at(v + 1, u), at(v, u + 1), at(v + 1, u + 1)  # noqa: B023
                    wide = abs(at(v + 2, u)) + abs(at(v, u + 2))
                    around = size_of(3 * (abs(a) + abs(left_level)) + abs(d) + abs(e) + 1 >> 1)
                    near = size_of(2 * (abs(below) + abs(right)) + abs(inner) + wide)
                    down, side = within(down, 40), within(side, 40)
                    agreed = size_of(abs(down + side))
                    values = [
                        around, near, down + 40, side + 40,
                        beside(within(down >> 1, 7) + 7, (within(side >> 1, 7) + 7, 4)), beside(seen, (last, 6)),
                        0, beside(within(a, 7) + 7, (within(left_level, 7) + 7, 4)), beside(within(x, 15) + 15, (min(around, 7), 3)),
                        beside(min(near, 15), (above + left, 7)), beside(total, (min(seen, 31), 5)),
                        beside(within(below, 7) + 7, (within(right, 7) + 7, 4)), 0,
                        beside(min(around, 15), (min(near, 15), 4), (min(agreed, 15), 4)),
                        beside(within(a + left_level, 15) + 15, (within(down + side >> 2, 15) + 15, 5)),
                        beside(min(abs(a), 3), (min(abs(left_level), 3), 2), (min(abs(d), 3), 2), (min(abs(e), 3), 2)),
                    ]  # fmt: skip
                    keys = z, 8 * min(around, 7) + min(near, 7), 8 * n + min(agreed, 7)
                    mixer.set(hash_of(2, k, z), keys, values)
                    mixer.hashes[6] = hash_of(3, n, z >> 2, beside(near, (around, 5)))
                    mixer.hashes[12] = hash_of(4, n, z, beside(total, (around, 5)))
                    number = block[p] = mixer.number()
                else:
                    inside = row > 0 and column > 0
                    west, north = numbers.get((row, column - 1), 0), numbers.get((row - 1, column), 0)
                    gap, size = size_of(abs(down - side) >> 1) if inside else 31, size_of(abs(west) + abs(north))
                    values = [
                        gap, size, beside(gap, (size, 5)), last, total,
                        beside(within(west, 15) + 15, (within(north, 15) + 15, 5)), within(west + north, 31) + 31,
                        beside(total, (gap, 5)), within(x >> 2, 63) + 63,
                    ]  # fmt: skip
                    mixer.set(hash_of(5, k), (68 + k, 40 + min(gap, 15), 40 + min(size, 15)), values)
                    number = numbers[row, column] = mixer.number()
                    block[0] = number + within((down + side) // (4 if inside else 2), 4095)
                seen, energy = seen + (number != 0), energy + abs(number)
            blocks[row, column] = block
    return blocks


def jpeg_transform(x, b):
    x0, x1, x2, x3, x4, x5, x6, x7 = x
    e = (x2 + x6) * 4433
    low, high, s, d = e - 15137 * x6, e + 6270 * x2, 8192 * (x0 + x4), 8192 * (x0 - x4)
    a = s + high, d + low, d - low, s - high
    f = 9633 * (x1 + x3 + x5 + x7)
    z1, z2, z3, z4 = -7373 * (x1 + x7), -20995 * (x3 + x5), f - 16069 * (x3 + x7), f - 3196 * (x1 + x5)
    c = 12299 * x1 + z1 + z4, 25172 * x3 + z2 + z3, 16819 * x5 + z2 + z4, 2446 * x7 + z1 + z3
    half = 1 << b - 1
    return [a[i] + c[i] + half >> b for i in range(4)] + [a[i] - c[i] + half >> b for i in (3, 2, 1, 0)]


def jpeg_plane(blocks, steps, height, width):
    """The samples of blocks, height rows of width."""
    plane = [[0] * width for _ in range(height)]
    for (row, column), levels in blocks.items():
        block = [level * step for level, step in zip(levels, steps)]
        columns = [jpeg_transform(block[u::8], 11) for u in range(8)]
        for i, line in enumerate(zip(*columns)):
            for j, sample in enumerate(jpeg_transform(line, 18)):
                if 8 * row + i < height and 8 * column + j < width:
                    plane[8 * row + i][8 * column + j] = clip(sample + 128)
    return plane


def jpeg_chroma(S, y, x, fr, fc, fancy):
    """The chroma of a pixel."""
    i, j = y // fr, x // fc
    if not fancy or (fc == 2 and len(S[0]) <= 2) or fr == fc == 1:
        return S[i][j]
    i2 = clamp(i + (1 if y % 2 else -1), 0, len(S) - 1)
    j2 = clamp(j + (1 if x % 2 else -1), 0, len(S[0]) - 1)
    if fr == 1:
        return 3 * S[i][j] + S[i][j2] + 1 + x % 2 >> 2
    if fc == 1:
        return 3 * S[i][j] + S[i2][j] + 1 + y % 2 >> 2
    return 3 * (3 * S[i][j] + S[i2][j]) + 3 * S[i][j2] + S[i2][j2] + 8 - x % 2 >> 4


def jpeg_differences(mixer, height, width, channels):
    """Differences by (y, x, c), c in the order of coding, where they are not 0."""
    found, differs = {}, set()
    for top in range(0, height, 8):
        for left in range(0, width, 8):
            around = ((top, left - 8), (top - 8, left), (top - 8, left - 8), (top - 8, left + 8))
            near, edge = bits_of(*(part in differs for part in around)), bits_of(top + 8 > height, left + 8 > width)
            mixer.set(6, (71, 56, 56), [near, edge, beside(near, (edge, 2))])
            if not mixer.decide(0, 7):
                continue
            differs.add((top, left))
            for y, x, c in itertools.product(
                range(top, min(top + 8, height)), range(left, min(left + 8, width)), range(channels)
            ):
                west, north, corner, last, second, before = (
                    found.get((y - i, x - j, c - m), 0)
                    for i, j, m in ((0, 1, 0), (1, 0, 0), (1, 1, 0), (0, 0, 1), (0, 0, 2), (0, 1, 1))
                )
                near = size_of(abs(west) + abs(north))
                w, n, m = (within(a, 7) + 7 for a in (west, north, last))
                values = [
                    near, beside(west + 128, (north + 128, 8)), beside(last + 128, (second + 128, 8)), last + 128,
                    west + north + 256, beside(w, (n, 4), (m, 4)), beside(m, (within(second, 7) + 7, 4), (min(near, 15), 4)),
                    beside(y % 8, (x % 8, 3)), beside(last - before + 256, (west + 128, 9)),
                    beside(west + 128, (last + 128, 8)), beside(north + 128, (last + 128, 8)), west + north - corner + 512,
                    west + 128, north + 128, beside(size_of(abs(last) + abs(second)), (near, 5)), 0,
                ]  # fmt: skip
                mixer.set(hash_of(7, c), (72 + c, 57 + min(near, 6), 57 + min(size_of(abs(last)), 6)), values)
                found[y, x, c] = (mixer.number() + 128) % 256 - 128
    return found


def jpeg(payload, shapes):
    body, heads, levels = Bytes(payload), [], 0
    for height, width, channels in shapes:
        kind, tables = body.byte(), []
        cut = body.byte() if kind & 16 else 0
        height, width = height + cut // 16, width + cut % 16
        for base in BASES[: 1 if channels == 1 else 2]:
            quality, table = body.byte(), [0] * 64
            if quality:
                s = 5000 // quality if quality < 50 else 200 - 2 * quality
                table = [clamp((a * s + 50) // 100, 1, 255) for a in base]
            else:
                for z in range(64):
                    table[ZIGZAG[z]] = body.byte()
            tables.append(table)
        fr, fc, _ = SAMPLINGS[kind & 7]
        sizes = [(height, width)] + [(-(-height // fr), -(-width // fc))] * (channels - 1)
        levels += sum(64 * -(-h // 8) * -(-w // 8) for h, w in sizes)
        heads.append((kind, cut, tables, sizes))
    mixer, layers = JpegMixer(levels, body.rest()), []
    for (height, width, channels), (kind, cut, tables, sizes) in zip(shapes, heads):
        fr, fc, fancy = SAMPLINGS[kind & 7]
        planes, blocks = [], None
        for k, (h, w) in enumerate(sizes):
            steps, factors = tables[min(k, 1)], (fr, fc) if k == 1 else (1, 1)
            blocks = jpeg_levels(mixer, -(-h // 8), -(-w // 8), k, steps, blocks, factors)
            planes.append(jpeg_plane(blocks, steps, h, w))
        differences = jpeg_differences(mixer, height, width, channels) if kind & 8 else {}
        pixels = np.zeros((height, width, channels), np.int64)
        for y, x in itertools.product(range(height), range(width)):
            row, column = y + cut // 16, x + cut % 16
            colours = [planes[0][row][column]]
            if channels == 3:
                B, R = (jpeg_chroma(plane, row, column, fr, fc, fancy) - 128 for plane in planes[1:])
                red, blue = 91881 * R + 32768 >> 16, 116130 * B + 32768 >> 16
                green = 32768 - 22554 * B - 46802 * R >> 16
                colours = [clip(colours[0] + offset) for offset in (red, green, blue)]
            for c, channel in enumerate(ORDER[channels]):
                pixels[y, x, channel] = (colours[channel] + differences.get((y, x, c), 0)) % 256
        layers.append(pixels)
    return layers
