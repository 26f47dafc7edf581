"""With atheris, what an input reaches in Python code guides the choice of the next seed."""

from __future__ import annotations

import random
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fuzzing.limits import MAX_INPUT, ROOT
from fuzzing.targets import Target, mutated


def has_atheris() -> bool:
    """Whether atheris is installed."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        return False
    return True


def import_instrumented() -> None:
    """Import dqcodec so that atheris sees what an input reaches."""
    import atheris

    with atheris.instrument_imports(include=["dqcodec"], exclude=_compiled_modules()):
        from dqcodec.codec import archive, codec  # noqa: F401
        from dqcodec.format import index, salvage  # noqa: F401
        from dqcodec.methods import autoregressive, experts, flow, jpeg, mixing, trained_mixing  # noqa: F401
        from dqcodec.png import exact, samples  # noqa: F401


def run_guided(target: Target, test: Callable[[bytes], None], end: float, seed: int) -> None:
    """Test inputs until the time `end`."""
    import atheris

    corpus = Path(tempfile.mkdtemp(prefix="dqcodec-fuzz-"))
    for number, data in enumerate(target.seeds):
        (corpus / f"seed{number}").write_bytes(data)

    def mutate(data, max_size, seed):
        return mutated(target, bytes(data), random.Random(seed))[:max_size]

    limits = {
        "mutate_depth": 2,
        "max_total_time": max(1, int(end - time.time())),
        "max_len": MAX_INPUT,
        "timeout": 3600,
        "rss_limit_mb": 0,
    }
    options = [f"-{name}={value}" for name, value in (limits | {"seed": seed}).items()]
    atheris.Setup(["fuzz", str(corpus), *options], test, custom_mutator=mutate)
    atheris.Fuzz()


def _compiled_modules() -> list[str]:
    """Whose code is not Python's to guide by."""
    paths = [
        path
        for path in (ROOT / "dqcodec").rglob("*.py")
        if re.search(r"^@(compiled|implements)", path.read_text(), re.M)
    ]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
