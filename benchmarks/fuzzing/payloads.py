"""The target of payloads, of every method."""

from __future__ import annotations

import random

import numpy as np

from dqcodec import png
from dqcodec.codec import codec
from dqcodec.codec.source import read
from dqcodec.exact.jpeg.recovery import recover
from dqcodec.exact.mixing.experts import Kind
from dqcodec.format.container import Group, sample_checksum
from dqcodec.format.head import Entry
from dqcodec.format.layer import Layer, Method
from dqcodec.format.split import Split, Step
from dqcodec.methods import classical, experts, jpeg, table
from fuzzing.changes import changed
from fuzzing.errors import named_errors
from fuzzing.limits import ROOT
from fuzzing.seeds import find_program, programs


class Target:
    """Payloads of every method, in files whose checksum is that of what they decode to. First a byte: which setting."""

    def __init__(self):
        rng = np.random.default_rng(1)

        def layers(*shapes):
            ramps = [np.indices(shape).sum(0) * 3 + rng.integers(0, 20, shape) for shape in shapes]
            return [ramp.clip(0, 255).astype(np.uint8) for ramp in ramps]

        self.settings, self.seeds = [], []
        for channels in (1, 2, 3, 4):
            for several in (layers((9, 11, channels), (3, 1, channels)), layers((1, 1, channels))):
                for method in (Method.MIXING, Method.PIXEL_MIXING, Method.TRAINED_MIXING):
                    self._add(Layer(method), *several, payload=table.encode(method, several).data)
                deep = [pixels.astype(np.uint16) * 37 for pixels in several]
                for kind in Kind:
                    payload = experts.encode_as(deep, [kind] * len(deep)).data
                    self._add(Layer(Method.EXPERTS), *deep, payload=payload)
                if channels in (1, 3):
                    self._add(Layer(Method.JPEG), *several, payload=table.encode(Method.JPEG, several).data)
                    whole = [recover(np.pad(pixels, ((2, 0), (3, 0), (0, 0)))) for pixels in several]
                    cut = [found._replace(offset=(2, 3)) for found in whole]
                    self._add(Layer(Method.JPEG), *several, payload=jpeg.encode_as(several, cut).data)
            tiled = np.tile(layers((17, 19, channels))[0], (6, 5, 1))  # it has periods
            self._add(Layer(Method.PIXEL_MIXING), tiled, payload=table.encode(Method.PIXEL_MIXING, [tiled]).data)
            self._add_animation(channels)
            for pixels in (*layers((21, 30, channels)), layers((3, 2050, channels))[0] & 8):
                self._add(Layer(Method.CLASSICAL), pixels, payload=classical.encode([pixels], classical.QUICK).data)
        for program in programs():
            several = layers((20, 26, program.channels))
            small = layers((1, 30, program.channels), (40, 2, program.channels), (1, 1, program.channels))
            several += [pixels for pixels in small if program.fits(pixels.shape)]
            for row in table.rows_of(program):
                payload = table.encode(row.number, several, program).data
                self._add(Layer(row.number, program.id), *several, payload=payload)

    def _add(self, layer, *arrays, payload: bytes) -> None:
        self.seeds.append(bytes([len(self.settings)]) + payload)
        self.settings.append((layer, [png.plain(pixels).skeleton for pixels in arrays]))

    def _add_animation(self, channels: int) -> None:
        """The frames of an animation, blended and disposed of in every way."""
        name = {1: "gray", 2: "alpha", 3: "rgb", 4: "rgba"}[channels]
        source = read((ROOT / "tests" / "golden" / "tiny" / f"animation-{name}.png").read_bytes())
        split = Split(Step.PLAIN)
        payload = table.encode(Method.ANIMATION, source.layers(split), spots=source.spots(split, 0)).data
        self.seeds.append(bytes([len(self.settings)]) + payload)
        self.settings.append((Layer(Method.ANIMATION), [source.image.skeleton]))

    def change(self, data: bytes, rng: random.Random) -> bytes:
        if rng.random() < 0.05:
            return bytes([rng.randrange(len(self.settings))]) + data[1:]
        return data[:1] + changed(data[1:], rng, (b"\xff" * 40, bytes(40)))

    def check(self, data: bytes) -> bool:
        layer, skeletons = self.settings[data[0] % len(self.settings)] if data else self.settings[0]
        is_deep = layer.method == Method.EXPERTS
        dtype, split = (np.uint16, Split(Step.WHOLE)) if is_deep else (np.uint8, Split(Step.PLAIN))
        entries = tuple(Entry(skeleton, split, ((layer,),) * len(skeleton.sizes)) for skeleton in skeletons)
        shapes = [(*size, skeleton.header.samples) for skeleton in skeletons for size in skeleton.sizes]
        spots = [spot for number, entry in enumerate(entries) for spot in entry.spots(number)]
        arrays = named_errors(lambda: table.decode(data[1:], layer, shapes, find_program, spots))
        if arrays is None:
            return False
        assert [(pixels.shape, pixels.dtype) for pixels in arrays] == [(shape, dtype) for shape in shapes]
        group = Group(entries, (data[1:],), sample_checksum(arrays))
        rasters = [raster for decoded in codec.decode(group, find_program) for raster in decoded.rasters]
        assert all(np.array_equal(*pair) for pair in zip(rasters, arrays, strict=True))
        return True
