"""Pixels by context mixing: whole where the prediction is good, otherwise bit by bit.

Candidates predict a pixel. Each is trusted by what it was worth in its context:

    0 left, 1 upper    neighbours W and N
    2 long match       the pixel at the last place with the same 15 neighbours, or at the distance of the match above; the distance
                       stays as long as the match is right
    3 short match      the pixel at the last place with the same 8 neighbours
    4 canvas           in an animation: what earlier frames drew at the pixel's place

The guess is the candidate among left, upper, long match (if it is long enough) and canvas that is trusted most.
Contexts learn how likely it is right, and are mixed, as in bit_mixing.py. If it is likely enough, one decision says
whether it is right; for most pixels this is the whole code. Otherwise the pixel's bits are coded.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled_in_place, part_of_loop_in_place
from dqcodec.exact.mixing.binary_coder import BinaryCoder, code_bit
from dqcodec.exact.mixing.bit_mixing import BitMixer, code_samples
from dqcodec.exact.mixing.counters import UNUSED, count, counted, learn_stage, staged
from dqcodec.exact.mixing.hashes import hashed, place_of
from dqcodec.exact.mixing.logistic import learn, mixed, squash
from dqcodec.exact.mixing.pixels import equals, neighbours, pattern
from dqcodec.exact.mixing.priors import UNTRAINED, Prior
from dqcodec.frozen.pixel_mixing import (
    CANVAS_ROW,
    CANVAS_TRUST,
    FIRST_HIT_ROWS,
    HIT_CONTEXTS,
    HIT_INPUTS,
    HIT_RATE,
    HIT_SETS,
    LEAST_HIT,
    LEAST_MATCH,
    LONGEST,
    MAX_HIT_BITS,
    STAGE,
)

_MAX_PIXELS_A_BYTE = 363_408  # a byte holds at most 8 / log2(65536 / 65535) of the most certain pixels
_MAX_PIXEL_BYTES = 4  # of a pixel, and 2 bytes of each bit of a sample, as the least probability is 2^-16


class PixelMixer(NamedTuple):
    """The state that learns to predict whole pixels.

    Attributes:
        counters: of hits, for each context, uint32.
        weights: of the inputs, int32 (HIT_ROWS, HIT_INPUTS).
        stages: by the neighbours that are as predicted, int32.
        trust: of each candidate in its context, a counter of how often it was right, uint32.
        places: the last places of each wide and each widest neighbourhood, by hash, int32.
        inputs, logits, rows: of the pixel at hand.
        candidates: the pixels of all candidates, and the counters that say how far each is trusted, int64 (2, 5).
        matches: of the pixel at hand, int64 (3, 2), see bit_mixing.code_samples.
        above, hits: of the row above, int64: the distances of long matches (W,), and how
            four guesses went, a bit each (W + 2,).
        bits: log2 of the counters of a context.
    """

    counters: np.ndarray
    weights: np.ndarray
    stages: np.ndarray
    trust: np.ndarray
    places: np.ndarray
    inputs: np.ndarray
    logits: np.ndarray
    rows: np.ndarray
    candidates: np.ndarray
    matches: np.ndarray
    above: np.ndarray
    hits: np.ndarray
    bits: int

    @classmethod
    def new(cls, pixels: int, width: int, prior: Prior, *, has_canvas: bool = False) -> "PixelMixer":
        """pixels: the number of pixels that will be coded. width: of the widest layer. prior: what is known before.

        has_canvas: whether layers may have a canvas.
        """
        bits = min(MAX_HIT_BITS, (2 * pixels).bit_length())
        return cls(
            np.full(HIT_CONTEXTS + has_canvas << bits, UNUSED, np.uint32), prior.hit_weights.copy(),
            np.tile(STAGE, (1024, 1)).astype(np.int32), prior.hit_trust.copy(),
            np.zeros(2 << bits, np.int32), np.zeros(HIT_INPUTS, np.int32), np.zeros(HIT_SETS, np.int64),
            np.zeros(CANVAS_ROW + 1, np.int64), np.zeros((2, 5), np.int64), np.zeros((3, 2), np.int64),
            np.zeros(width, np.int64), np.zeros(width + 2, np.int64), bits,
        )  # fmt: skip


def new_mixers(
    shapes: Sequence[tuple[int, int, int]], prior: Prior = UNTRAINED, *, has_canvas: bool = False
) -> tuple[PixelMixer, BitMixer]:
    """Mixers for layers of these shapes, which all have the same number of channels. Other
    arguments: see PixelMixer.new.
    """
    pixels, widest = _pixels(shapes), max(width for _, width, _ in shapes)
    hits = PixelMixer.new(pixels, widest, prior, has_canvas=has_canvas)
    return hits, BitMixer.new(pixels * shapes[0][2], prior)


def writer(shapes: Sequence[tuple[int, int, int]], bits: Sequence[int]) -> BinaryCoder:
    """A coder that writes layers. bits: of the samples of each."""
    most = sum(h * w * (_MAX_PIXEL_BYTES + 2 * each * channels) for (h, w, channels), each in zip(shapes, bits))
    return BinaryCoder.writer(most)


def reader(code: bytes, shapes: Sequence[tuple[int, int, int]]) -> BinaryCoder:
    """A coder that reads layers; raises CorruptError: the code is too short for them."""
    return BinaryCoder.reader(code, _pixels(shapes), _MAX_PIXELS_A_BYTE)


def _pixels(shapes: Sequence[tuple[int, int, int]]) -> int:
    """The pixels of layers."""
    return sum(height * width for height, width, _ in shapes)


class _Around(NamedTuple):
    """Hashes of the pixels around a pixel, uint64."""

    near: int
    wide: int
    widest: int


class _Guess(NamedTuple):
    """The prediction of a pixel.

    Attributes:
        pixel: the predicted one.
        best: the number of the candidate that predicts it; 3 for the canvas, because a short match is never the guess.
        trust: the context in which it is trusted.
        shape: which of the pixels around equal it.
        match: which of the matches predict it, and which matches exist.
    """

    pixel: int
    best: int
    trust: int
    shape: int
    match: int


@compiled_in_place
def code_layer(pixel_mixer, bit_mixer, coder, layer):
    """Code the pixels of a PixelLayer, row by row, with a PixelMixer, a BitMixer and a BinaryCoder, which change."""
    pixels, size = layer.pixels, pixel_mixer.bits
    places, matches, above, hits = pixel_mixer.places, pixel_mixer.matches, pixel_mixer.above, pixel_mixer.hits
    pixel_mixer.inputs[:] = bit_mixer.network.inputs[:] = 0  # those of a canvas stay 0 without one
    above[:], hits[:] = 0, 0
    distance = length = np.int64(0)  # of the long match
    for y in range(layer.height):
        run = past = corner = np.int64(0)
        for x in range(layer.width):
            at = layer.first + y * layer.stride + x
            around = _around(pixels, at, layer.stride)
            wide_place, widest_place = place_of(around.wide, size), (1 << size) + place_of(around.widest, size)
            if length == 0:
                length, distance = _long_match(layer, at, above[x], np.int64(places[widest_place]))
            _set_matches(matches, layer, at, length, distance, np.int64(places[wide_place]))
            _set_candidates(pixel_mixer, layer, at)
            guess = _guess(pixel_mixer, layer, at, length)
            history = past & 15 | (hits[x + 1] & 3) << 4 | (hits[x + 2] & 3) << 6 | (corner & 3) << 8
            _set_rows(pixel_mixer, layer, at, around, guess, history, run)
            _set_inputs(pixel_mixer, layer, guess)
            hit = _code_pixel(pixel_mixer, bit_mixer, coder, layer, at, guess)
            corner = hits[x + 1]
            past = (past << 1 | hit) & 15
            hits[x + 1] = past
            run = run + 1 if hit else 0
            places[wide_place] = places[widest_place] = at
            if length:
                length = length + 1 if matches[0, 0] == np.int64(pixels[at]) else 0
                above[x] = distance if length else 0


@part_of_loop_in_place
def _around(pixels, at, stride):
    """The hashes of a pixel's neighbourhoods."""
    north, second = at - stride, at - 2 * stride
    W, N, NW, NE, WW, NN = neighbours(pixels, at, stride)
    near = hashed(hashed(hashed(hashed(np.uint64(1), W), N), NW), NE)
    wide = hashed(hashed(near, WW), NN)
    wide = hashed(hashed(wide, pixels[second + 1]), pixels[north + 2])
    widest = hashed(hashed(wide, pixels[north - 2]), pixels[second - 1])
    widest = hashed(hashed(widest, pixels[at - 3]), pixels[north + 3])
    widest = hashed(hashed(widest, pixels[at - 4]), pixels[north + 4])
    return _Around(near, wide, hashed(widest, pixels[second - stride]))


@part_of_loop_in_place
def _long_match(layer, at, above, last):
    """(length, distance) of a new long match, or a length of 0.

    above: the distance of the match of the pixel above, or 0. last: the last place of the widest neighbourhood.
    """
    pixels, stride = layer.pixels, layer.stride
    length = np.int64(0)
    if above:
        o = at - above
        length = equals(pixels, o - 1, at - 1) & equals(pixels, o - stride, at - stride)
        length &= equals(pixels, o - stride + 1, at - stride + 1)
    if length == 0 and last > 2 * stride:
        length = np.int64(_agreement(pixels, at, last, stride) == 63)
        length &= equals(pixels, last - 3, at - 3) & equals(pixels, last - 4, at - 4)
        return length, at - last
    return length, above


@part_of_loop_in_place
def _set_matches(matches, layer, at, length, distance, last):
    """Set the long match, and the short one at `last`, the last place of the wide
    neighbourhood; see bit_mixing.code_samples.
    """
    pixels, stride = layer.pixels, layer.stride
    matches[0, 0], matches[0, 1] = np.int64(pixels[at - distance]) if length else -1, min(length, LONGEST)
    matches[1, 0], matches[1, 1] = -1, 0
    if last > 2 * stride:
        matches[1, 0] = np.int64(pixels[last])
        matches[1, 1] = 1 + equals(pixels, last - 1, at - 1) + 2 * equals(pixels, last - stride, at - stride)
        matches[1, 1] += 4 * equals(pixels, last - 2, at - 2) + 8 * equals(pixels, last - stride + 1, at - stride + 1)
    if layer.canvas:
        matches[2, 0] = np.int64(pixels[at - layer.canvas])
        matches[2, 1] = 1 + _agreement(pixels, at, at - layer.canvas, stride)


@part_of_loop_in_place
def _candidates(layer):
    """The number of candidates."""
    return 5 if layer.canvas else 4


@part_of_loop_in_place
def _set_candidates(mixer, layer, at):
    """Set the candidates: the left pixel, the upper one, those of both matches, and that of the canvas."""
    pixels, candidates, matches = layer.pixels, mixer.candidates, mixer.matches
    near = neighbours(pixels, at, layer.stride)
    equal = pattern(near)
    candidates[0, 0], candidates[1, 0] = np.int64(near.W), equal
    candidates[0, 1], candidates[1, 1] = np.int64(near.N), 64 + equal
    candidates[0, 2], candidates[1, 2] = matches[0, 0], 128 + matches[0, 1]
    candidates[0, 3], candidates[1, 3] = matches[1, 0], 192 + matches[1, 1]
    candidates[0, 4], candidates[1, 4] = matches[2, 0], CANVAS_TRUST + max(0, matches[2, 1] - 1)


@part_of_loop_in_place
def _guess(mixer, layer, at, length):
    """The _Guess of a pixel: the candidate that is trusted most. length: of the long match."""
    trust, candidates, matches = mixer.trust, mixer.candidates, mixer.matches
    best = np.int64(0)
    for k in range(1, 2 + np.int64(length > LEAST_MATCH)):
        if trust[candidates[1, k]] >> 10 > trust[candidates[1, best]] >> 10:
            best = k
    if layer.canvas and trust[candidates[1, 4]] >> 10 > trust[candidates[1, best]] >> 10:
        best = np.int64(4)
    pixel, trusted = candidates[0, best], candidates[1, best]
    match = np.int64(matches[0, 0] == pixel) | np.int64(matches[1, 0] == pixel) << 1
    match |= np.int64(length > 0) << 2 | np.int64(matches[1, 1] > 0) << 3
    return _Guess(pixel, min(best, 3), trusted, _shape(layer.pixels, at, layer.stride, pixel), match)


@part_of_loop_in_place
def _shape(pixels, at, stride, pixel):
    """Which of the pixels around equal the predicted one."""
    north, second = at - stride, at - 2 * stride
    W, N, NW, NE, WW, NN = neighbours(pixels, at, stride)
    shape = np.int64(W == pixel) | np.int64(N == pixel) << 1 | np.int64(NW == pixel) << 2 | np.int64(NE == pixel) << 3
    shape |= np.int64(WW == pixel) << 4 | np.int64(NN == pixel) << 5
    shape |= np.int64(pixels[second + 1] == pixel) << 6 | np.int64(pixels[second - 1] == pixel) << 7
    return shape | np.int64(pixels[north - 2] == pixel) << 8 | np.int64(pixels[north + 2] == pixel) << 9


@part_of_loop_in_place
def _set_rows(mixer, layer, at, around, guess, history, run):
    """Set the rows of the counters and weights of a guess. history: hits nearby. run: the
    number of hits just before the pixel.
    """
    pixels, rows, matches, size = layer.pixels, mixer.rows, mixer.matches, mixer.bits
    W, N, pixel, shape, match = pixels[at - 1], pixels[at - layer.stride], guess.pixel, guess.shape, guess.match
    lengths = matches[0, 1] << 12 | matches[1, 1] << 8 | match << 4 | guess.best
    rows[0] = place_of(hashed(around.near, pixel), size)
    rows[1] = place_of(hashed(np.uint64(2), shape << 4 | match), size)
    rows[2] = place_of(hashed(around.wide, pixel), size)
    rows[3] = place_of(hashed(np.uint64(3), lengths), size)
    rows[4] = place_of(hashed(hashed(hashed(np.uint64(4), W), N), pixel), size)
    rows[5] = place_of(hashed(np.uint64(5), history << 8 | (shape & 15) << 4 | match), size)
    rows[6] = place_of(hashed(around.widest, pixel), size)
    rows[7] = place_of(hashed(np.uint64(6), min(run, 255) << 8 | (shape & 15) << 4 | match), size)
    if layer.canvas:
        o, drawn = at - layer.canvas, matches[2, 0]
        of_canvas = hashed(hashed(hashed(hashed(np.uint64(4), drawn), N), pixel), W)
        rows[4] = place_of(hashed(of_canvas, pixels[o + 1]), size)
        flat = equals(pixels, o + 1, o) | equals(pixels, o + layer.stride, o) << 1
        kind = matches[2, 1] - 1 << 13 | np.int64(drawn == pixel) << 12 | flat << 10 | shape
        rows[CANVAS_ROW] = (HIT_CONTEXTS << size) + place_of(hashed(np.uint64(7), kind), size)
    for i in range(HIT_CONTEXTS):
        rows[i] += i << size
    rows[HIT_CONTEXTS] = FIRST_HIT_ROWS[0] + (shape & 63)
    rows[HIT_CONTEXTS + 1] = FIRST_HIT_ROWS[1] + (match << 2 | guess.best)
    rows[HIT_CONTEXTS + 2] = FIRST_HIT_ROWS[2] + (history & 255)


@part_of_loop_in_place
def _set_inputs(mixer, layer, guess):
    """Set the logits that counters and candidates give to a guess."""
    counters, trust, inputs, rows = mixer.counters, mixer.trust, mixer.inputs, mixer.rows
    candidates, matches = mixer.candidates, mixer.matches
    for i in range(HIT_CONTEXTS):
        inputs[i] = counted(counters, rows[i])
    for k in range(_candidates(layer)):
        logit = counted(trust, candidates[1, k])
        inputs[HIT_CONTEXTS + (6 if k == 4 else k)] = logit if candidates[0, k] == guess.pixel else -logit
    for k in range(2):
        if matches[k, 1] == 0:
            inputs[HIT_CONTEXTS + 2 + k] = 0
    inputs[HIT_CONTEXTS + 4] = counted(trust, guess.trust)
    inputs[HIT_CONTEXTS + 5] = 256
    if layer.canvas:
        inputs[HIT_CONTEXTS + 7] = counted(counters, rows[CANVAS_ROW])


@part_of_loop_in_place
def _code_pixel(mixer, bit_mixer, coder, layer, at, guess):
    """Code a pixel, and learn from it; returns whether the guess is right: 0 or 1."""
    pixels, weights, stages, logits, rows = layer.pixels, mixer.weights, mixer.stages, mixer.logits, mixer.rows
    total = np.int64(0)
    for k in range(HIT_SETS):
        logits[k] = mixed(weights, rows[HIT_CONTEXTS + k], mixer.inputs)
        total += logits[k]
    logit = total // HIT_SETS
    corrected, cell = staged(stages, guess.shape, logit)
    probability = min(65535, max(1, squash(logit) + corrected >> 1))
    hit = np.int64(pixels[at] == guess.pixel)
    is_likely = np.int64(probability >= LEAST_HIT)
    if is_likely:
        hit = code_bit(coder, probability, hit)
    if is_likely and hit:
        pixels[at] = guess.pixel
    else:
        code_samples(bit_mixer, coder, layer, at, guess.pixel, is_likely, mixer.matches)
        hit = np.int64(pixels[at] == guess.pixel)
    learn_stage(stages, guess.shape, cell, hit)
    target = (hit << 16) - hit
    for k in range(HIT_SETS):
        learn(weights, rows[HIT_CONTEXTS + k], mixer.inputs, target - squash(logits[k]), HIT_RATE)
    _count(mixer, layer, np.int64(pixels[at]), hit)
    return hit


@part_of_loop_in_place
def _count(mixer, layer, pixel, hit):
    """Count in the contexts of a pixel whether the guess, and each candidate, was right."""
    counters, trust, rows, candidates = mixer.counters, mixer.trust, mixer.rows, mixer.candidates
    for i in range(HIT_CONTEXTS):
        count(counters, rows[i], hit)
    for k in range(_candidates(layer)):
        count(trust, candidates[1, k], np.int64(candidates[0, k] == pixel))
    if layer.canvas:
        count(counters, rows[CANVAS_ROW], hit)


@part_of_loop_in_place
def _agreement(pixels, at, o, stride):
    """Which neighbours of two places are equal."""
    agree = equals(pixels, at - 1, o - 1) | equals(pixels, at - stride, o - stride) << 1
    agree |= equals(pixels, at - stride + 1, o - stride + 1) << 2
    agree |= equals(pixels, at - stride - 1, o - stride - 1) << 3
    agree |= equals(pixels, at - 2, o - 2) << 4
    return agree | equals(pixels, at - 2 * stride, o - 2 * stride) << 5
