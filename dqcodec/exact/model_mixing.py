"""Context mixing with a model: an autoregressive density foretells every bit, and that is mixed with what contexts tell.

The model walks through tiles front by front, as when it codes alone; plane by plane the samples of a front are coded by
context_mixing.
"""

import numpy as np

from dqcodec.compiled import compiled
from dqcodec.exact.context import context, enter
from dqcodec.exact.context_mixing import code_sample
from dqcodec.exact.context_net import head_sums, tell
from dqcodec.exact.heads import foretell, learn, note

_BITS = 8


@compiled
def code_front(net, matrices, tables, log_spreads, planes, features, places, mixer, pixels, corners, is_sought):
    """Code the pixels of a front.

    Args:
        net: ContextNet.weights. matrices: last layers, see LearningLinears. planes, features: a Canvas's. places: see Fronts.
        mixer, pixels: see context_mixing; corners: of the tiles among `pixels`, (T, 2).
        is_sought: whether the samples are read and entered into planes and pixels; else they are there.

    Returns:
        what that teaches the last layers.
    """
    count, channels = len(places), planes.shape[1]
    seen, moments = context(planes, features, places, _BITS, log_spreads)
    sums, taught = head_sums(net, seen), np.zeros(matrices.shape)
    values = np.empty((count, channels), np.int16)
    standards, known = np.empty((count, channels), np.float32), np.empty((count, 2 * channels), np.float32)
    laws, coded, offsets = np.empty((3, matrices.shape[2] // 3, count)), np.empty(count, np.int32), np.zeros(count, np.int64)
    symbols = 1 << _BITS
    for p in range(channels):
        head, out = foretell(net, sums, known, p, matrices, tables, log_spreads, moments[p], offsets, symbols, laws)
        for n in range(count):
            tile = places[n, 4]
            y, x = corners[tile, 0] + places[n, 1], corners[tile, 1] + places[n, 2]
            code_sample(mixer, pixels, y, x, p, _BITS, is_sought, laws, n, tables.sigmoid)
            coded[n] = pixels[y, x, p]
        learn(head, out, laws, tables.sigmoid, symbols, coded, moments[p], p, taught)
        note(coded, offsets, moments[p], p, values, standards, known)
    enter(planes, features, places, values, tell(net, seen, standards))
    return taught
