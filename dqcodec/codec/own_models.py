"""Models in an archive. Each holds changes of a base model, which must be at hand; see exact/autoregressive/changes.py."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np

from dqcodec.base.errors import ModelError
from dqcodec.codec import trial
from dqcodec.codec.effort import Effort
from dqcodec.exact.program import FindProgram, Program
from dqcodec.format.own_model import OwnModel


def base_for(layers: Sequence[np.ndarray], bits: int, programs: Sequence[Program], effort: Effort) -> Program | None:
    """The trainable program that suits layers, (H, W, C) uint8, best, or None. bits: of a sample."""
    able = [program for program in programs if (program.kind, program.bits) == ("autoregressive", bits)]
    return trial.best_program(layers, able, effort) if layers else None


def finder(models: Iterable[OwnModel], find_program: FindProgram) -> FindProgram:
    """A function like `find_program` that finds these models too."""
    own = {model.id: model for model in models}
    return lambda model_id: program_of(own[model_id], find_program) if model_id in own else find_program(model_id)


def program_of(model: OwnModel, find_program: FindProgram) -> Program:
    """The program of a model; a second call with the same base returns the same one.

    Raises what `find_program` raises for the base; CorruptError, ModelError: the changes do not fit it.
    """
    return _changed(find_program(model.base), model)


@functools.lru_cache(maxsize=4)
def _changed(base: Program, model: OwnModel) -> Program:
    from dqcodec.exact.autoregressive import changes

    if base.kind != "autoregressive":
        raise ModelError("a model in the archive changes one that is not autoregressive")
    program = changes.apply(base, model.changes, model.id)
    program.name = f"{base.name}, learned further"
    return program
