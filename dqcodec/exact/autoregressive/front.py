"""The steps to code the pixels of a front, the same for every coder and decoder: context, network; for each plane laws
and symbols."""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop
from dqcodec.context.context import ONE_SPREAD, context, predict_next, standardised
from dqcodec.context.least_squares import predicts
from dqcodec.exact.autoregressive.backward import add_known_gradients, add_net_gradients, head_gradients
from dqcodec.exact.autoregressive.context_net import Weights, head_sums, successor_features
from dqcodec.exact.autoregressive.heads import activations, add_gradients, known_inputs, outputs
from dqcodec.exact.mixture import MixtureTables, edges, set_gradients, set_mixtures, set_slots
from dqcodec.frozen.autoregressive import PREDICTED, PREDICTION_BITS


class Gradients(NamedTuple):
    """Sums of the gradients for weights that learn. They are integers, so they add up exactly in any order.

    Attributes:
        out: for the last layers, float64 (P, H + 1, 3 K).
        net: for the network's layers, see LearningNet.
    """

    out: np.ndarray
    net: np.ndarray

    def take(self, other: "Gradients") -> None:
        """Add those of another thread, which then starts anew."""
        for own, others in zip(self, other):
            own += others
            others[:] = 0


class Parameters(NamedTuple):
    """A program's constants and layers. Layers learn after a front.

    Attributes:
        net: the network's weights.
        scales: see LearningNet.
        matrices: the last layers, float32 (P, H + 1, 3 K).
        units: their outputs are in steps of 1 / units, float64 (3 K,).
        tables: of the mixtures.
        log_spreads: see context.log_spreads.
        bits: of a sample.
    """

    net: Weights
    scales: np.ndarray
    matrices: np.ndarray
    units: np.ndarray
    tables: MixtureTables
    log_spreads: np.ndarray
    bits: int


class _Coded(NamedTuple):
    """What is known of the pixels of a front, plane after plane.

    Attributes:
        symbols: of the plane at hand, int32 (N,).
        values: of the plane, int16 (N,): symbols less offsets.
        offsets: what is subtracted from symbols, int32 (N,): of later planes, the symbols of G; else 0.
        standards: of all planes, standardised, float32 (P, N).
    """

    symbols: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    standards: np.ndarray


@singledispatch
def code_symbols(coder, model, pixels, places, laws, p, symbols):
    """Code the symbols of plane p, int32 (N,): a decoder sets them, an encoder writes them.

    Each kind of coder `implements` it. Symbols are G, R, B, or gray. laws: int32 (3, K, N), see
    mixture. Other arguments: see code_front.
    """
    raise NotImplementedError


@compiled
def code_front(model, pixels, predictor, places, coder, slots, gradients):
    """Code pixels.

    Args:
        model: the Parameters.
        pixels: a TilePixels, which has all neighbours of these pixels. Their planes, errors and features are set.
        predictor: see context.
        places: int64 (N, 5), see Fronts.places.
        coder: a NamedTuple that implements code_symbols.
        slots: set to the first slot and the number of slots of all symbols, int32 (N, P, 2).
        gradients: Gradients, to which those of the pixels are added.
    """
    seen = context(pixels, predictor, places, model.log_spreads, model.bits)
    sums, hidden = head_sums(model.net, seen.inputs)
    channels, count = seen.predictions.shape
    known = np.empty((2 * channels + PREDICTED, count), np.float32)
    coded = _Coded(
        np.empty(count, np.int32), np.empty(count, np.int16), np.zeros(count, np.int32),
        np.empty((channels, count), np.float32),
    )  # fmt: skip
    laws, symbols = np.empty((3, model.matrices.shape[2] // 3, count), np.int32), coded.symbols
    by_sums, size = np.empty_like(sums), len(sums) // channels
    for p in range(channels):
        spreads = seen.moments[p, 1]
        head_known = known[: known_inputs(model.net, channels, p)]
        head = activations(model.net, channels, sums, head_known, p)
        out = outputs(model.matrices[p], head, model.net.bound)
        set_mixtures(
            laws, 1 << model.bits, model.tables, out, seen.predictions[p], spreads, model.log_spreads, coded.offsets
        )
        code_symbols(coder, model, pixels, places, laws, p, symbols)
        masses, positions = edges(laws, model.tables.sigmoid, 1 << model.bits, symbols)
        set_slots(laws, masses, 1 << model.bits, symbols, slots, p)
        set_gradients(laws, masses, positions, spreads, out)
        add_gradients(head, out, gradients.out[p])
        if len(model.scales):
            by_head = by_sums[p * size : (p + 1) * size]
            head_gradients(model.matrices[p], out, model.units, head, model.scales[0], by_head)
            if p:
                add_known_gradients(model.net, head_known, p, by_head, gradients.net)
        _record(pixels, places, seen, p, coded, known)
        if predicts(predictor):
            predict_next(predictor, seen, p, coded.values, known[2 * p + 2 :], model.log_spreads, model.bits)
    if len(model.scales):
        add_net_gradients(model.net, model.scales, seen.inputs, hidden, by_sums, gradients.net)
    _enter_features(pixels.features, places, successor_features(model.net, seen.inputs, coded.standards))


@part_of_loop
def _record(pixels, places, seen, p, coded, known):
    """Record plane p of a front: in the TilePixels, in a _Coded, and, in known, as the heads of later planes know it."""
    symbols, values, offsets, standards = coded
    predictions, moments = seen.predictions[p], seen.moments[p]
    for n in range(len(symbols)):
        values[n] = symbols[n] - offsets[n]
        value = standardised(np.int32(values[n]), moments[0, n], moments[1, n])
        standards[p, n] = known[2 * p, n] = value
        known[2 * p + 1, n] = min(max(value, -ONE_SPREAD), ONE_SPREAD)
    for n in range(len(symbols)):
        pixels.planes[places[n, 0], p] = values[n]
        pixels.errors[places[n, 0], p] = abs((np.int32(values[n]) << PREDICTION_BITS) - predictions[n])
    if p == 0:
        for n in range(len(symbols)):
            offsets[n] = symbols[n]


@part_of_loop
def _enter_features(known, places, features):
    """Enter the features of pixels (F, N) into those of all pixels (pixels, F)."""
    for n in range(len(places)):
        for f in range(len(features)):
            known[places[n, 0], f] = features[f, n]
