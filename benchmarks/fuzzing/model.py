"""The target of model files."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import numpy as np

from dqcodec.codec.suitability import takes_model
from dqcodec.exact.program import load_program
from dqcodec.format.layer import Layer
from dqcodec.methods import table
from fuzzing.changes import NUMBERS, changed
from fuzzing.errors import named_errors
from fuzzing.seeds import model_paths

_VALUES = (
    None, True, False, [], {}, "", "x", "flow", "autoregressive", "uniform", "gaussian", "ard", "bipartite", 0, 1, 2, 3,
    8, 9, 14, 16, 20, 64, 255, 1 << 12, 1 << 16, 1 << 40, 10**30, -1, -(10**9), 1.5, 3.0, float("nan"), float("inf"),
    [1], [1] * 9, [8, 8], [1 << 40] * 2, [None], "\ud800", [[]] * 3,
)  # fmt: skip


class Target:
    """Model files: description and tensors; what is loaded must code exactly."""

    def __init__(self):
        self.seeds = [path.read_bytes() for path in model_paths()]
        ramp = np.indices((20, 26)).sum(0)[..., None] * 4 + np.arange(3) * 30
        noise = np.random.default_rng(0).integers(-9, 9, ramp.shape)
        self.pixels = (ramp + noise).clip(0, 255).astype(np.uint8)
        self.path = Path(tempfile.mkdtemp(prefix="dqcodec-fuzz-")) / "model.safetensors"

    def change(self, data: bytes, rng: random.Random) -> bytes:
        if rng.random() < 0.1:
            return changed(data, rng)
        length = int.from_bytes(data[:8], "little")
        header, body = data[8 : 8 + length], data[8 + length :]
        if rng.random() < 0.1:
            header = changed(header, rng)
            return len(header).to_bytes(8, "little") + header + body
        parsed = json.loads(header)
        tensors = {name: [each["dtype"], each["shape"], body[slice(*each["data_offsets"])]]
                   for name, each in parsed.items() if name != "__metadata__"}  # fmt: skip
        description = json.loads(parsed["__metadata__"]["dqcodec"])
        for _ in range(rng.choice((1, 1, 2, 4))):
            if rng.random() < 0.25:
                description[rng.choice([*description, "other"])] = rng.choice(_VALUES)
            elif description.get("learning") and rng.random() < 0.25:
                self._change_rules(description["learning"], rng)
            else:
                self._change_tensors(tensors, rng)
        return self._packed(json.dumps(description), tensors)

    @staticmethod
    def _change_rules(rules: list[list[int]], rng: random.Random) -> None:
        """How layers of the network learn, and how many do."""
        place = rng.randrange(len(rules))
        match rng.randrange(4):
            case 0 | 1:
                rules[place][rng.randrange(3)] = rng.choice((-33, -32, -8, -1, 0, 1, 3, 8, 16, 31, 32, 33))
            case 2:
                rules[place:place] = [[*rules[place]] for _ in range(rng.choice((1, 1, 90)))]
            case 3:
                del rules[place]

    def _change_tensors(self, tensors: dict[str, list], rng: random.Random) -> None:
        name = rng.choice(sorted(tensors))
        dtype, shape, raw = tensors[name]
        size = {"I8": 1, "U8": 1, "I16": 2, "I32": 4, "I64": 8}.get(dtype, 8)
        match rng.randrange(7):
            case 0 | 1 | 2:  # a number, or all of them
                value = rng.choice([*NUMBERS, (1 << 53) - 1, 1 << 17, 1 << 38, rng.randrange(1 << 16)]) * rng.choice(
                    (1, -1)
                )
                code = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
                places = range(len(raw) // size)
                for place in places if rng.random() < 0.2 else [rng.choice(places)]:
                    raw = raw[: place * size] + code + raw[(place + 1) * size :]
                    tensors[name][2] = raw
                    if len(raw) > 20000:
                        break
            case 3:
                tensors[name][1] = rng.choice(
                    [[1, *shape], [*shape, 1], shape[::-1], [len(raw) // size], shape[1:], [0]]
                )
                if tensors[name][1] == shape[1:] and shape:
                    tensors[name][2] = raw[: len(raw) // shape[0]]
                elif tensors[name][1] == [0]:
                    tensors[name][2] = b""
            case 4:  # fewer or more of them
                if shape:
                    row, count = len(raw) // shape[0], rng.choice([1, shape[0] - 1, shape[0] + 1, 2 * shape[0]])
                    tensors[name][1:] = [count, *shape[1:]], (raw * 2 + raw[:row])[: count * row]
            case 5:
                other = rng.choice(sorted(tensors))
                tensors[name], tensors[other] = tensors[other], tensors[name]
            case 6:
                if rng.random() < 0.5:
                    del tensors[name]
                else:
                    tensors[name][0] = rng.choice(
                        ["BOOL", "U8", "I8", "F8_E5M2", "I16", "BF16", "F16", "U32", "F32", "U64"]
                    )

    @staticmethod
    def _packed(description: str, tensors: dict[str, list]) -> bytes:
        header, position = {"__metadata__": {"dqcodec": description}}, 0
        for name, (dtype, shape, raw) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + len(raw)]}
            position += len(raw)
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + b"".join(raw for *_, raw in tensors.values())

    def check(self, data: bytes) -> bool:
        self.path.write_bytes(data)
        program = named_errors(lambda: load_program(self.path))
        if program is None:
            return False
        pixels = self.pixels[..., : program.channels] >> 8 - program.bits
        for row in table.rows_of(program) if takes_model(pixels) and program.fits(pixels.shape) else ():
            payload = named_errors(lambda: table.encode(row.number, [pixels], program))
            if payload:
                layer = Layer(row.number, program.id)
                (decoded,) = table.decode(payload.data, layer, [pixels.shape], lambda _: program)
                assert np.array_equal(decoded, pixels), "what the program codes is not what it decodes"
        return True
