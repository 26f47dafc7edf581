"""Context mixing with a model: an autoregressive density foretells every bit, and that is mixed with what contexts tell.

The model walks through tiles front by front, as when it codes alone; plane by plane the samples of a front are coded by
context_mixing.
"""

import numpy as np

from dqcodec.compiled import compiled
from dqcodec.exact.context import context, enter
from dqcodec.exact.context_mixing import code_sample
from dqcodec.exact.context_net import head_sums, tell
from dqcodec.exact.heads import activations, note, set_law, teach
from dqcodec.exact.mixture import gradient


@compiled
def code_front(net, matrices, tables, log_spreads, bits, planes, features, places, mixer, pixels, corners, is_sought):
    """Code the pixels of a front.

    Args:
        net: ContextNet.weights. matrices: last layers, see LearningLinears. planes, features: a Canvas's. places: see Fronts.
        mixer, pixels: see context_mixing; corners: of the tiles among `pixels`, (T, 2).
        is_sought: whether the samples are read and entered into planes and pixels; else they are there.

    Returns:
        what that teaches the last layers.
    """
    count, channels = len(places), planes.shape[1]
    seen, moments = context(planes, features, places, bits, log_spreads)
    sums, taught = head_sums(net, seen), np.zeros(matrices.shape)
    values = np.empty((count, channels), np.int16)
    standards, known = np.empty((count, channels), np.float32), np.empty((count, 2 * channels), np.float32)
    law = np.empty((3, matrices.shape[2] // 3), np.int64)
    for p in range(channels):
        head = activations(sums, net.known, known, p, matrices.shape[1], net.level)
        out = np.dot(head, matrices[p])
        for n in range(count):
            tile = places[n, 4]
            y, x = corners[tile, 0] + places[n, 1], corners[tile, 1] + places[n, 2]
            offset = np.int64(values[n, 0]) if p else 0  # R and B come less G
            set_law(law, 1 << bits, tables, out, n, net.bound, moments, p, log_spreads, offset)
            code_sample(mixer, pixels, y, x, p, bits, is_sought, law, tables.sigmoid)
            symbol = np.int64(pixels[y, x, p])
            values[n, p] = symbol - offset
            gradient(law, tables.sigmoid, 1 << bits, symbol, np.int64(moments[n, p, 1]), out, n)
        note(values, moments, p, standards, known)
        teach(head, out, taught, p)
    enter(planes, features, places, values, tell(net, seen, standards))
    return taught
