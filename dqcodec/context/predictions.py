"""Local least squares over whole tiles: each front's weights are fitted before it is coded, and its pixels remembered after."""

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.context.context import Canvas, context, log_spreads, set_predicted
from dqcodec.context.fronts import Fronts
from dqcodec.context.least_squares import Predictor, fit, place_of, predict, predictor, remember, set_pixel
from dqcodec.frozen.autoregressive import PREDICTED


class Predictions:
    """The predictor of the batch of tiles that is coded, front by front."""

    def __init__(self, fronts: Fronts, planes: int):
        self._fronts, self._planes = fronts, planes
        self._first, self._turn = -1, 0

    def begin(self, front: int) -> Predictor:
        """Before a front is coded; the fronts follow each other."""
        tiles, first, turn = self._fronts.batch(front)
        if first != self._first:
            self._first, self._turn = first, -1
            self._predictor = predictor(tiles, first, self._planes)
        blocks = len(self._predictor.starts)
        while self._turn < turn:  # narrow tiles leave gaps
            self._turn += 1
            fit(self._predictor, self._turn, 0, blocks)
            if self._turn < turn:
                remember(self._predictor, self._turn, 0, blocks)
        return self._predictor

    def end(self) -> None:
        """When the front is coded."""
        remember(self._predictor, self._turn, 0, len(self._predictor.starts))


def predict_tiles(planes: np.ndarray, bits: int) -> np.ndarray:
    """The predictions of whole tiles, planes int16 (B, H, W, P) as on a Canvas: int32, in steps of 2^-PREDICTION_BITS."""
    tiles, height, width, channels = planes.shape
    fronts = Fronts([(height, width)] * tiles, bits)
    predictions, canvas = Predictions(fronts, channels), Canvas.blank(fronts.pixels, channels, 0)
    canvas.planes[:] = planes.reshape(-1, channels)
    out = np.empty(canvas.planes.shape, np.int32)
    for front in range(len(fronts)):
        places = fronts.places(front)
        out[places[:, 0]] = _predict(canvas, places, bits, log_spreads(), predictions.begin(front))
        predictions.end()
    return out.reshape(planes.shape)


@compiled
def _predict(canvas, places, bits, log_spreads, predictor):
    """The predictions (N, P) of the pixels of a front, which the canvas has."""
    seen = context(canvas, places, bits, log_spreads, predictor)
    count, channels = len(places), canvas.planes.shape[1]
    values, known = np.empty((count, channels), np.int16), np.empty((count, 2 * channels + PREDICTED), np.float32)
    out = np.empty((count, channels), np.int32)
    for p in range(channels):
        for n in range(count):
            values[n, p] = canvas.planes[places[n, 0], p]
        set_plane(predictor, places, seen, p, values, known, log_spreads, 1 << bits)
        out[:, p] = seen.predictions[p]
    return out


@compiled
def set_plane(predictor, places, seen, p, values, known, log_spreads, symbols):
    """Enter plane p of pixels, which is now known, and predict the next plane.

    Sets seen.predictions of the next plane, and known[:, 2 p + 2 :] to what its head sees of them; see context.set_predicted.
    """
    for n in range(len(values)):
        block, lane = place_of(predictor, places[n, 4], places[n, 1])
        set_pixel(predictor, block, lane, p, np.int64(values[n, p]), np.int64(seen.moments[p, 0, n]))
        if p + 1 < values.shape[1]:
            mean, spread = np.int64(seen.moments[p + 1, 0, n]), np.int64(seen.moments[p + 1, 1, n])
            prediction = predict(predictor, block, lane, p + 1, mean, 1 - symbols, symbols - 1)
            seen.predictions[p + 1, n] = prediction
            out = known[n, 2 * p + 2 : 2 * p + 2 + PREDICTED]
            set_predicted(out, prediction, mean, spread, np.int64(seen.log_errors[p + 1, n]), log_spreads)
