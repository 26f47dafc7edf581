"""Local least squares over whole tiles: the weights of a front are fitted before it is
coded, and its pixels enter after.
"""

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.context.context import TilePixels, context, log_spreads, predict_next
from dqcodec.context.fronts import Fronts
from dqcodec.context.least_squares import Predictor, advance, predictor
from dqcodec.frozen.autoregressive import PREDICTED


class Predictions:
    """The predictors of tiles, front by front."""

    def __init__(self, fronts: Fronts, planes: int):
        self._fronts, self._planes = fronts, planes
        self._first, self._diagonal = -1, 0

    def begin(self, front: int) -> Predictor:
        """The predictor of a front's batch of tiles, ready for the front. Calls go through the fronts in order."""
        tiles, first, diagonal = self._fronts.batch(front)
        if first != self._first:
            self._first, self._diagonal = first, -1
            self._predictor = predictor(tiles, first, self._planes)
        while self._diagonal < diagonal:  # narrow tiles leave gaps
            self._diagonal += 1
            advance(self._predictor, self._diagonal)
        return self._predictor


def predict_tiles(planes: np.ndarray, bits: int) -> np.ndarray:
    """The predictions of whole tiles, int32 (B, H, W, P), in steps of 2^-PREDICTION_BITS.

    planes: int16 (B, H, W, P), as TilePixels has them. bits: of a sample.
    """
    tiles, height, width, channels = planes.shape
    fronts = Fronts([(height, width)] * tiles, bits)
    predictions, pixels = Predictions(fronts, channels), TilePixels.blank(fronts.pixels, channels, 0)
    pixels.planes[:] = planes.reshape(-1, channels)
    out = np.empty(pixels.planes.shape, np.int32)
    for front in range(len(fronts)):
        places = fronts.places(front)
        out[places[:, 0]] = _predict(pixels, predictions.begin(front), places, log_spreads(), bits).T
    return out.reshape(planes.shape)


@compiled
def _predict(pixels, predictor, places, log_spreads, bits):
    """The predictions (P, N) of the pixels at places, whose planes are known."""
    seen = context(pixels, predictor, places, log_spreads, bits)
    values, known = np.empty(len(places), np.int16), np.empty((PREDICTED, len(places)), np.float32)
    for p in range(pixels.planes.shape[1]):
        for n in range(len(places)):
            values[n] = pixels.planes[places[n, 0], p]
        predict_next(predictor, seen, p, values, known, log_spreads, bits)
    return seen.predictions
