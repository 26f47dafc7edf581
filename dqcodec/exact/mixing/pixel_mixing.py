"""Pixels by context mixing: whole where the prediction is good, otherwise bit by bit.

A pixel is predicted by its left or upper neighbour, by what followed a match, an earlier place that looked alike, or, in an
animation, by the canvas: what earlier frames drew at its place. How likely the prediction is right is learned in contexts
and mixed, as bits are in bit_mixing. If it is likely enough, one decision says whether it is right; for most pixels this
is the whole code. Otherwise the pixel's bits are coded.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled_in_place
from dqcodec.exact.mixing.binary_coder import code_bit
from dqcodec.exact.mixing.bit_mixing import code_samples, hashed, place_of
from dqcodec.exact.mixing.logistic import count, counted, learn, learn_stage, mixed, squash, staged
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
    MARGIN,
    MAX_HIT_BITS,
    STAGE,
)


class PixelMixer(NamedTuple):
    """The state that learns to predict whole pixels.

    Attributes:
        counters: of hits, for each context, uint32.
        weights: of the inputs, int32 (HIT_ROWS, HIT_INPUTS).
        stages: by the neighbours that are as predicted, int32.
        trust: of each candidate in its context, a counter of how often it was right, uint32.
        places: for a wide and a near neighbourhood, where it was last, int32.
        inputs, logits, rows: of the pixel at hand.
        candidates: all but the canvas, their pixels, and their contexts, int64 (2, 4).
        matches: see bit_mixing.
        above, hits: of the row above: matches, and which pixels were as predicted, int64.
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
    def new(cls, pixels: int, width: int, prior: Prior = UNTRAINED, *, has_canvas: bool = False) -> "PixelMixer":
        """pixels: the number of pixels that will be coded. width: of the widest layer. prior: what is known before.
        has_canvas: layers may have one."""
        bits = min(MAX_HIT_BITS, (2 * pixels).bit_length())
        return cls(
            np.full(HIT_CONTEXTS + has_canvas << bits, 1 << 31, np.uint32), prior.hit_weights.copy(),
            np.tile(STAGE, (1024, 1)).astype(np.int32), prior.hit_trust.copy(),
            np.zeros(2 << bits, np.int32), np.zeros(HIT_INPUTS, np.int32), np.zeros(HIT_SETS, np.int64),
            np.zeros(CANVAS_ROW + 1, np.int64), np.zeros((2, 4), np.int64), np.zeros((3, 2), np.int64),
            np.zeros(width, np.int64), np.zeros(width + 2, np.int64), bits,
        )  # fmt: skip


@compiled_in_place
def code_layer(pixel_mixer, bit_mixer, coder, pixels, first, height, width, channels, bits, periods, canvas):
    """Code the pixels of a layer, row by row.

    Args:
        pixel_mixer, bit_mixer: a PixelMixer and a BitMixer, which change.
        coder: a BinaryCoder.
        pixels: of all layers, see bit_mixing; those of this layer are entered if they are read.
        first: the place of this layer's first pixel.
        height, width, channels, bits: of the layer.
        periods: places to the left, int64 (2,).
        canvas: places to the left, where the canvas has what is drawn at the same place; 0 without a canvas. It is period 0 too.
    """
    counters, weights, stages, trust = pixel_mixer.counters, pixel_mixer.weights, pixel_mixer.stages, pixel_mixer.trust
    places, inputs, logits, rows = pixel_mixer.places, pixel_mixer.inputs, pixel_mixer.logits, pixel_mixer.rows
    candidates, matches, size = pixel_mixer.candidates, pixel_mixer.matches, pixel_mixer.bits
    inputs[:] = bit_mixer.inputs[:] = 0  # those of a canvas stay 0 without one
    stride = width + 2 * MARGIN
    above, hits = pixel_mixer.above, pixel_mixer.hits
    above[:], hits[:] = 0, 0
    distance = length = np.int64(0)  # of the long match
    for y in range(height):
        run = past = np.int64(0)
        corner = np.int64(0)
        for x in range(width):
            at = first + y * stride + x
            W, N, NW, NE = pixels[at - 1], pixels[at - stride], pixels[at - stride - 1], pixels[at - stride + 1]
            WW, NN = pixels[at - 2], pixels[at - 2 * stride]
            NWW, NEE = pixels[at - stride - 2], pixels[at - stride + 2]
            NNW, NNE = pixels[at - 2 * stride - 1], pixels[at - 2 * stride + 1]
            near = hashed(hashed(hashed(hashed(np.uint64(1), W), N), NW), NE)
            wide = hashed(hashed(hashed(hashed(near, WW), NN), NNE), NEE)
            widest = hashed(hashed(hashed(hashed(wide, NWW), NNW), pixels[at - 3]), pixels[at - stride + 3])
            widest = hashed(hashed(hashed(widest, pixels[at - 4]), pixels[at - stride + 4]), pixels[at - 3 * stride])
            wide_place, widest_place = place_of(wide, size), (1 << size) + place_of(widest, size)

            # matches
            if length == 0 and above[x]:
                o = at - above[x]
                length = np.int64(pixels[o - 1] == W and pixels[o - stride] == N and pixels[o - stride + 1] == NE)
                distance = above[x]
            if length == 0 and places[widest_place] > 2 * stride:
                o = np.int64(places[widest_place])
                same = pixels[o - 1] == W and pixels[o - stride] == N and pixels[o - stride + 1] == NE
                same = same and pixels[o - 2] == WW and pixels[o - 2 * stride] == NN and pixels[o - stride - 1] == NW
                length = np.int64(same and pixels[o - 3] == pixels[at - 3] and pixels[o - 4] == pixels[at - 4])
                distance = at - o
            o = np.int64(places[wide_place])
            matches[0, 1], matches[1, 1] = min(length, LONGEST), 0
            matches[0, 0] = np.int64(pixels[at - distance]) if length else -1
            matches[1, 0] = -1
            if o > 2 * stride:
                matches[1, 0] = np.int64(pixels[o])
                matches[1, 1] = 1 + np.int64(pixels[o - 1] == W) + 2 * np.int64(pixels[o - stride] == N)
                matches[1, 1] += 4 * np.int64(pixels[o - 2] == WW) + 8 * np.int64(pixels[o - stride + 1] == NE)

            # the prediction
            pattern = np.int64(W == N) | np.int64(N == NW) << 1 | np.int64(N == NE) << 2 | np.int64(W == NW) << 3
            pattern |= np.int64(W == WW) << 4 | np.int64(N == NN) << 5
            candidates[0, 0], candidates[1, 0] = W, pattern
            candidates[0, 1], candidates[1, 1] = N, 64 + pattern
            candidates[0, 2], candidates[1, 2] = matches[0, 0], 128 + matches[0, 1]
            candidates[0, 3], candidates[1, 3] = matches[1, 0], 192 + matches[1, 1]
            best = 0
            for k in range(1, 2 + np.int64(length > LEAST_MATCH)):
                if trust[candidates[1, k]] >> 10 > trust[candidates[1, best]] >> 10:
                    best = k
            predicted, trusted = np.int64(candidates[0, best]), candidates[1, best]
            if canvas:
                drawn, alike = np.int64(pixels[at - canvas]), _agreement(pixels, at, at - canvas, stride)
                matches[2, 0], matches[2, 1], of_canvas = drawn, 1 + alike, CANVAS_TRUST + alike
                if trust[of_canvas] >> 10 > trust[trusted] >> 10:
                    best, predicted, trusted = 3, drawn, of_canvas

            # how likely it is right
            shape = np.int64(W == predicted) | np.int64(N == predicted) << 1 | np.int64(NW == predicted) << 2
            shape |= np.int64(NE == predicted) << 3 | np.int64(WW == predicted) << 4 | np.int64(NN == predicted) << 5
            farther = np.int64(NNE == predicted) | np.int64(NNW == predicted) << 1 | np.int64(NWW == predicted) << 2
            shape |= (farther | np.int64(NEE == predicted) << 3) << 6
            match = np.int64(matches[0, 0] == predicted) | np.int64(matches[1, 0] == predicted) << 1
            match |= np.int64(length > 0) << 2 | np.int64(matches[1, 1] > 0) << 3
            history = past & 15 | (hits[x + 1] & 3) << 4 | (hits[x + 2] & 3) << 6 | (corner & 3) << 8
            lengths = matches[0, 1] << 12 | matches[1, 1] << 8 | match << 4 | best
            rows[0] = place_of(hashed(near, predicted), size)
            rows[1] = place_of(hashed(np.uint64(2), shape << 4 | match), size)
            rows[2] = place_of(hashed(wide, predicted), size)
            rows[3] = place_of(hashed(np.uint64(3), lengths), size)
            rows[4] = place_of(hashed(hashed(hashed(np.uint64(4), W), N), predicted), size)
            rows[5] = place_of(hashed(np.uint64(5), history << 8 | (shape & 15) << 4 | match), size)
            rows[6] = place_of(hashed(widest, predicted), size)
            rows[7] = place_of(hashed(np.uint64(6), min(run, 255) << 8 | (shape & 15) << 4 | match), size)
            if canvas:
                o = at - canvas
                rows[4] = place_of(
                    hashed(hashed(hashed(hashed(hashed(np.uint64(4), drawn), N), predicted), W), pixels[o + 1]), size
                )
                flat = np.int64(pixels[o + 1] == drawn) | np.int64(pixels[o + stride] == drawn) << 1
                kind = alike << 13 | np.int64(drawn == predicted) << 12 | flat << 10 | shape
                rows[CANVAS_ROW] = (HIT_CONTEXTS << size) + place_of(hashed(np.uint64(7), kind), size)
                logit = counted(trust, of_canvas)
                inputs[HIT_CONTEXTS + 6] = logit if drawn == predicted else -logit
                inputs[HIT_CONTEXTS + 7] = counted(counters, rows[CANVAS_ROW])
            for i in range(HIT_CONTEXTS):
                rows[i] += i << size
                inputs[i] = counted(counters, rows[i])
            for k in range(4):
                logit = counted(trust, candidates[1, k])
                inputs[HIT_CONTEXTS + k] = logit if candidates[0, k] == predicted else -logit
            if matches[0, 1] == 0:
                inputs[HIT_CONTEXTS + 2] = 0
            if matches[1, 1] == 0:
                inputs[HIT_CONTEXTS + 3] = 0
            inputs[HIT_CONTEXTS + 4] = counted(trust, trusted)
            inputs[HIT_CONTEXTS + 5] = 256
            rows[HIT_CONTEXTS] = FIRST_HIT_ROWS[0] + (shape & 63)
            rows[HIT_CONTEXTS + 1] = FIRST_HIT_ROWS[1] + (match << 2 | best)
            rows[HIT_CONTEXTS + 2] = FIRST_HIT_ROWS[2] + (history & 255)
            total = np.int64(0)
            for k in range(HIT_SETS):
                logits[k] = mixed(weights, rows[HIT_CONTEXTS + k], inputs)
                total += logits[k]
            logit = total // HIT_SETS
            corrected, cell = staged(stages, shape, logit)
            probability = min(65535, max(1, squash(logit) + corrected >> 1))

            # the pixel
            hit = np.int64(pixels[at] == predicted)
            is_likely = np.int64(probability >= LEAST_HIT)
            if is_likely:
                hit = code_bit(coder, probability, hit)
            if is_likely and hit:
                pixels[at] = predicted
            else:
                code_samples(
                    bit_mixer, coder, pixels, at, stride, channels, bits, periods, is_likely, predicted, matches, canvas
                )
                hit = np.int64(pixels[at] == predicted)

            learn_stage(stages, shape, cell, hit)
            target = (hit << 16) - hit
            for k in range(HIT_SETS):
                learn(weights, rows[HIT_CONTEXTS + k], inputs, target - squash(logits[k]), HIT_RATE)
            for i in range(HIT_CONTEXTS):
                count(counters, rows[i], hit)
            for k in range(4):
                count(trust, candidates[1, k], np.int64(candidates[0, k] == np.int64(pixels[at])))
            if canvas:
                count(counters, rows[CANVAS_ROW], hit)
                count(trust, of_canvas, np.int64(drawn == np.int64(pixels[at])))
            corner = hits[x + 1]
            past = (past << 1 | hit) & 15
            hits[x + 1] = past
            run = run + 1 if hit else 0
            places[wide_place] = places[widest_place] = at
            if length:
                length = length + 1 if matches[0, 0] == np.int64(pixels[at]) else 0
                above[x] = distance if length else 0


@compiled_in_place
def _agreement(pixels, at, o, stride):
    """Which neighbours of two places are equal."""
    agree = np.int64(pixels[at - 1] == pixels[o - 1]) | np.int64(pixels[at - stride] == pixels[o - stride]) << 1
    agree |= np.int64(pixels[at - stride + 1] == pixels[o - stride + 1]) << 2
    agree |= np.int64(pixels[at - stride - 1] == pixels[o - stride - 1]) << 3
    agree |= np.int64(pixels[at - 2] == pixels[o - 2]) << 4
    return agree | np.int64(pixels[at - 2 * stride] == pixels[o - 2 * stride]) << 5
