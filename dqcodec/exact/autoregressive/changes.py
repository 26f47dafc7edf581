"""The changes from one autoregressive program to another, in few bytes. An archive stores its own model in this way.

    apply(program, data, id)     the program with the changes of `data`
    pack(program, rows)          the data of changes

A row (an output of a layer) first loses its `drop` lowest bits; then each of its weights grows by a multiple of
2^weight_step, its bias by a multiple of 2^bias_step. The data are unsigned and signed varints, for each layer in the
order of ContextNet.layers: drops (O,), absent where a layer shares a sum with an earlier one, whose drops it takes;
weight steps (O,); weights (O, I), signed; and for a layer with a bias: bias steps (O,); biases (O,), signed.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.varint import MAX_BYTES, folded, unfolded
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.networks import Linear

MAX_DROP, MAX_STEP = 16, 24
_PARTS = "weight", "bias", "shift"


class Rows(NamedTuple):
    """The changes of a layer's rows.

    Attributes:
        drop, weight_step, bias_step: bits, int64 (O,). weights: int64 (O, I). biases: int64 (O,). A layer that
            shares sums with the heads has no biases.
    """

    drop: np.ndarray
    weight_step: np.ndarray
    weights: np.ndarray
    bias_step: np.ndarray | None = None
    biases: np.ndarray | None = None


def apply(program: AutoregressiveProgram, data: bytes, id: bytes) -> AutoregressiveProgram:
    """The changed program; it gets this id.

    Raises CorruptError: the data are malformed; ModelError: the changed program is not proven exact.
    """
    tensors = {"net.level": np.array(program.net.level)}
    tensors |= {f"mixture.{name}": table for name, table in program.tables._asdict().items()}
    for name, layer, rows in _parse(program, data):
        tensors |= {f"{name}.{part}": tensor for part, tensor in zip(_PARTS, changed(layer, rows))}
    return AutoregressiveProgram(program.description, tensors, id)


def pack(program: AutoregressiveProgram, rows: Mapping[str, Rows]) -> bytes:
    """The data of changes, given by the names of layers."""
    numbers = []
    for name, _, shared in _layers(program):
        of_layer = rows[name]
        numbers += [] if shared else [of_layer.drop]
        numbers += [of_layer.weight_step, folded(of_layer.weights.ravel())]
        numbers += [] if shared else [of_layer.bias_step, folded(of_layer.biases)]
    return _varints(np.concatenate(numbers))


def lowered(values: np.ndarray, drop: np.ndarray) -> np.ndarray:
    """Integers (O, ...) without the lowest bits of each row, rounded."""
    drop = drop.reshape(-1, *[1] * (values.ndim - 1))
    return (values + (np.int64(1) << drop >> 1)) >> drop


def changed(layer: Linear, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(weight (O, I), bias, shift) of a changed layer; raises CorruptError: a row has no bits left."""
    shift = layer.shift - rows.drop
    if shift.min() < 1:
        raise CorruptError("the changes of a model leave a layer no bits")
    weight = lowered(layer.weight[..., 0, 0], rows.drop) + (rows.weights << rows.weight_step[:, None])
    bias = np.zeros_like(layer.bias)
    if rows.biases is not None:
        bias = lowered(without_half(layer), rows.drop) + (rows.biases << rows.bias_step) + _half(shift)
    return weight, bias, shift


def without_half(layer: Linear) -> np.ndarray:
    """The biases of a layer without the half that rounds, int64 (O,)."""
    return layer.bias - _half(layer.shift)


def _half(shift: np.ndarray) -> np.ndarray:
    return np.int64(1) << (shift - 1)


def _layers(program: AutoregressiveProgram) -> Iterator[tuple[str, Linear, slice | None]]:
    """(name, layer, rows of the heads with which it shares sums) of each layer."""
    head = program.net.out[0].inputs
    for name, layer in program.net.layers.items():
        plane = int(name.rpartition(".")[2]) if name.startswith("net.known.") else 0
        yield name, layer, slice(plane * head, (plane + 1) * head) if plane else None


def _parse(program: AutoregressiveProgram, data: bytes) -> Iterator[tuple[str, Linear, Rows]]:
    layers = [*_layers(program)]
    count = sum(layer.outputs * (layer.inputs + (1 if shared else 4)) for _, layer, shared in layers)
    numbers, position, drops = _numbers(data, count), 0, {}

    def take(count: int) -> np.ndarray:
        nonlocal position
        position += count
        return numbers[position - count : position]

    def bits(count: int, limit: int) -> np.ndarray:
        if (values := take(count)).max() > limit:
            raise CorruptError("the changes of a model are out of range")
        return values

    for name, layer, shared in layers:
        outputs = layer.outputs
        drops[name] = drops["net.heads"][shared] if shared else bits(outputs, MAX_DROP)
        weight_step = bits(outputs, MAX_STEP)
        weights = unfolded(take(outputs * layer.inputs)).reshape(outputs, -1)
        biases = () if shared else (bits(outputs, MAX_STEP), unfolded(take(outputs)))
        yield name, layer, Rows(drops[name], weight_step, weights, *biases)


def _varints(values: np.ndarray) -> bytes:
    """The varints of numbers below 2^35, see base.varint."""
    groups = values[:, None] >> 7 * np.arange(MAX_BYTES)
    more = groups[:, 1:] > 0
    kept = np.concatenate([np.ones((len(values), 1), bool), more], 1)
    return ((groups & 127) + 128 * np.pad(more, ((0, 0), (0, 1))))[kept].astype(np.uint8).tobytes()


def _numbers(data: bytes, count: int) -> np.ndarray:
    """The inverse of _varints, int64 (count,); raises CorruptError."""
    if not count <= len(data) <= MAX_BYTES * count:
        raise CorruptError("the changes of a model do not fit it")
    raw = np.frombuffer(data, np.uint8).astype(np.int64)
    ends = np.flatnonzero(raw < 128)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    lengths = ends - starts + 1
    if len(ends) != count or ends[-1] != len(raw) - 1 or lengths.max() > MAX_BYTES:
        raise CorruptError("the changes of a model do not fit it")
    if (raw[ends][lengths > 1] == 0).any():
        raise CorruptError("malformed number")
    places = np.arange(len(raw)) - starts.repeat(lengths)
    return np.add.reduceat((raw & 127) << 7 * places, starts)
