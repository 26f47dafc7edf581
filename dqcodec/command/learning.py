"""`compress --learn`: a model at hand is trained further on the images of an archive, which then brings it."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dqcodec.base.errors import FAILURES, UnknownModelError
from dqcodec.codec import own_models, zoo
from dqcodec.codec.image_layers import layers_for_models
from dqcodec.codec.sampling import sample
from dqcodec.codec.source import read
from dqcodec.command.items import read_item
from dqcodec.command.options import Compressing
from dqcodec.command.results import LearnedReport
from dqcodec.format.own_model import MODEL_COPIES, OwnModel, model_bytes

if TYPE_CHECKING:
    import numpy as np

    from dqcodec.exact.program import Program
    from dqcodec.training.budget import Budget
    from dqcodec.training.progress import Progress

_MOST_BYTES = 1 << 28  # of layers to learn from; of more images some are taken
_TRIAL_PIXELS = 1 << 17


class Learned(NamedTuple):
    """A model that was learned. report: without saved bytes. is_hopeful: on a sample, it saves more than it costs."""

    model: OwnModel
    report: LearnedReport
    is_hopeful: bool


def learn(inputs: Sequence[tuple[Path, str]], options: Compressing, budget: Budget, progress: Progress) -> Learned:
    """Train the model that suits the images best.

    inputs: (path, name) of sources; those that cannot be read are left out. Raises DqcodecError: no model that can
    learn suits, or learning diverged.
    """
    from dqcodec.training.fine_tuning import fine_tune

    start, used = time.monotonic(), time.process_time()
    bits, layers = _most_alike(inputs, options)
    base = own_models.base_for(layers, bits, [zoo.load(name) for name in options.models], options.effort)
    if base is None:
        raise UnknownModelError("no model that can learn codes these images")
    with progress:
        changes = fine_tune(base, layers, budget, MODEL_COPIES, progress)
    model = OwnModel(base.id, changes)
    own = own_models.program_of(model, functools.partial(zoo.find, named=options.models))
    cost = model_bytes(model)
    is_hopeful = _saved(layers, base, own) > cost
    seconds = round(time.monotonic() - start, 1), round(time.process_time() - used, 1)
    return Learned(model, LearnedReport(base.name, *seconds, cost, saved_bytes=0), is_hopeful)


def _most_alike(inputs: Sequence[tuple[Path, str]], options: Compressing) -> tuple[int, list[np.ndarray]]:
    """(bits, layers): of the layers with equal bits and channels, the kind with the most pixels. They are in any order."""
    options = replace(options, others="leave")  # they hold no images
    layers: dict[tuple[int, int], list[np.ndarray]] = {}
    seen, left = set(), _MOST_BYTES
    for path, name in random.Random(0).sample(inputs, len(inputs)):
        item = read_item(path, name, options)
        if item.error or item.data in seen:
            continue
        seen.add(item.data)
        try:
            source = read(item.data, max_pixels=options.max_pixels, **options.reading)
        except FAILURES:
            continue
        for each in layers_for_models(source):
            layers.setdefault((each.bits, each.pixels.shape[2]), []).append(each.pixels)
            left -= each.pixels.size
        if left < 0:
            break
    if not layers:
        return 0, []
    (bits, _), most = max(layers.items(), key=lambda each: sum(pixels[..., 0].size for pixels in each[1]))
    return bits, most


def _saved(layers: Sequence[np.ndarray], base: Program, own: Program) -> float:
    """The bytes that a model saves over its base, by a sample of the layers."""
    parts = list(sample(layers, _TRIAL_PIXELS))
    share = sum(part.size for part in parts) / sum(layer.size for layer in layers)
    return (base.code_length(parts) - own.code_length(parts)) / share / 8
