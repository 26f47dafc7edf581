"""One HTML page about one image: a single file without scripts and without links to other files."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np

from dqcodec.codec.codec import Info
from dqcodec.page import maps
from dqcodec.page.lengths import LayerBits, per_sample

_STYLE = """
:root { color-scheme: light dark; --soft: #8888; --one: #3b6fb6; --two: #d9773f; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1120px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .2rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 2rem 0 .6rem; }
p { margin: .4rem 0; } figure { margin: 0; } figcaption { font-size: .85rem; margin-top: .25rem; }
img { display: block; width: 100%; image-rendering: pixelated; border: 1px solid var(--soft); box-sizing: border-box; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 1rem; }
.planes { display: grid; grid-template-columns: repeat(auto-fill, minmax(240px, 1fr)); gap: 1rem; }
.pair img { max-height: 620px; object-fit: contain; object-position: left top; border: 0; }
.legend { max-width: 640px; margin: .8rem 0; } .ramp { height: 14px; }
.marks { display: flex; justify-content: space-between; font-size: .8rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--soft); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } tr.ours, tr.total { font-weight: 600; }
.scroll { overflow-x: auto; } td.bar { width: 40%; } td.bar div { height: 12px; background: var(--one); }
tr.ours td.bar div { background: var(--two); }
svg { width: 100%; max-width: 800px; font-size: 11px; } svg text { fill: currentColor; }
svg .grid { stroke: var(--soft); } svg .samples { fill: var(--one); } svg .bits { fill: var(--two); }
.key span::before { content: ""; display: inline-block; width: .8em; height: .8em; margin: 0 .4em 0 0; }
.key .samples::before { background: var(--one); } .key .bits::before { background: var(--two); margin-left: 1em; }
"""


def page(
    name: str,
    pixels: np.ndarray,
    info: Info,
    layers: Sequence[LayerBits],
    source_bytes: int,
    peers: Mapping[str, int | str],
) -> str:
    """The page of an image.

    name: of the file. pixels: its colours, uint8 or uint16 (H, W) or (H, W, C). info, layers: of its .dqc file.
    source_bytes: of the source. peers: title of a codec -> its bytes, or why it has none.
    """
    planes = [plane for layer in layers for plane in layer.planes]
    most = maps.scale([bits for _, bits in planes])
    whole = per_sample(layers)
    samples = info.width * info.height * info.samples
    kind = f"{info.width} x {info.height} pixels, {info.samples} x {info.bit_depth} bits"
    rate = f"{8 * info.dqc_bytes / samples:.3f} bits a sample"
    sections = [
        f"<h1>{html.escape(name)}</h1>",
        f"<p>{kind}. {source_bytes:,} bytes become <b>{info.dqc_bytes:,}</b>: {rate}, by {html.escape(info.method)}.</p>",
        '<div class="pair">',
        _figure("picture", _picture(pixels), "the image"),
        _figure("map", maps.colored(maps.shown(whole), most), "bits of a pixel, the mean of its samples"),
        "</div>",
        maps.legend(most),
        _notes(layers),
        _planes(planes, most),
        "<h2>Where the bits went</h2>",
        _layers(info, layers),
        "<h2>Lengths of the samples' codes</h2>",
        '<p class="key"><span class="samples">share of the samples</span> <span class="bits">share of the bits</span></p>',
        maps.histogram([bits for _, bits in planes]),
        "<h2>Beside other codecs</h2>",
        _peers(info.dqc_bytes, peers),
    ]
    head = f'<meta charset="utf-8"><title>{html.escape(name)}: where the bits went</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(sections)}</body></html>\n'


def _planes(planes: Sequence[tuple[str, np.ndarray]], most: int) -> str:
    """A map of each plane; nothing for a single plane."""
    if len(planes) < 2:
        return ""
    figures = [
        _figure(f"plane-{number}", maps.colored(maps.shown(bits), most), f"{name}: {bits.mean():.3f} bits a sample")
        for number, (name, bits) in enumerate(planes)
    ]
    return f'<h2>By plane, on the same scale</h2><div class="planes">{"".join(figures)}</div>'


def _picture(pixels: np.ndarray) -> np.ndarray:
    """The colours of the picture in the page, uint8 (H, W, C)."""
    reduced = np.atleast_3d(maps.shown(pixels))
    return (reduced >> 8).astype(np.uint8) if reduced.dtype == np.uint16 else reduced


def _figure(id: str, pixels: np.ndarray, caption: str) -> str:
    text = html.escape(caption)
    image = f'<img id="{id}" src="{maps.data_uri(pixels)}" alt="{text}">'
    return f"<figure>{image}<figcaption>{text}</figcaption></figure>"


def _notes(layers: Sequence[LayerBits]) -> str:
    """A line about the layers whose bits are spread evenly."""
    even = [layer for layer in layers if layer.is_even]
    if not even:
        return ""
    names = html.escape(", ".join(f"{layer.name} ({layer.method})" for layer in even))
    return f"<p>The bits of these layers are spread evenly, because their method does not locate them: {names}.</p>"


def _layers(info: Info, layers: Sequence[LayerBits]) -> str:
    """The table of layers: bytes achieved, and the bound of the coder's own probabilities."""
    rows = []
    for layer in layers:
        achieved, bound = layer.coded_bits / layer.bits.size, layer.bound_bits
        rows.append([
            layer.name, layer.method, layer.model or "-", f"{layer.coded_bits / 8:,.0f}",
            f"{100 * layer.coded_bits / 8 / info.dqc_bytes:.1f} %", f"{achieved:.4f}",
            "-" if bound is None else f"{bound / layer.bits.size:.4f}",
            "-" if bound is None else f"{layer.coded_bits / bound - 1 if bound else 0:+.3%}",
        ])  # fmt: skip
    rest = info.dqc_bytes - info.payload_bytes
    rows.append(["head, checksums, palette and metadata", "", "", f"{rest:,}", f"{100 * rest / info.dqc_bytes:.1f} %"])
    rows.append(["the file", "", "", f"{info.dqc_bytes:,}", "100 %"])
    rows = [row + [""] * (8 - len(row)) for row in rows]
    header = ["layer", "method", "model", "bytes", "of the file", "bits a sample", "bound", "above it"]
    note = (
        "<p>The bound is -log2 of the probabilities that the coder itself gave. The rest is the price of the bit stack "
        "and of its first bits.</p>"
    )
    return _table(header, rows, classes={len(rows) - 1: "total"}) + note


def _peers(ours: int, peers: Mapping[str, int | str]) -> str:
    """The table of codecs, the smallest first; those without a size last."""
    sizes = {"dqcodec": ours} | {title: size for title, size in peers.items() if isinstance(size, int)}
    most, lines = max(sizes.values()), []
    for title, size in sorted(sizes.items(), key=lambda item: item[1]):
        row = "ours" if title == "dqcodec" else ""
        bar = f'<td class="bar"><div style="width:{100 * size / most:.1f}%"></div></td>'
        beside = f"{100 * (size / ours - 1):+.1f} %" if title != "dqcodec" else ""
        lines.append(f'<tr class="{row}"><td>{html.escape(title)}</td><td>{size:,}</td><td>{beside}</td>{bar}</tr>')
    missing = [f"{title}: {why}" for title, why in peers.items() if isinstance(why, str)]
    note = f"<p>Not measured: {html.escape('; '.join(missing))}.</p>" if missing else ""
    head = "<tr><th>codec</th><th>bytes</th><th>to dqcodec</th><th></th></tr>"
    return f'<div class="scroll"><table id="peers">{head}{"".join(lines)}</table></div>{note}'


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], classes: Mapping[int, str]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        f'<tr class="{classes.get(number, "")}">' + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for number, row in enumerate(rows)
    )
    return f'<div class="scroll"><table id="layers"><tr>{head}</tr>{body}</table></div>'
