"""Hypothesis tries the same examples in every run, and an example may take any time."""

import pytest
from hypothesis import settings

from dqcodec.codec import candidates, zoo

settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile("same")


@pytest.fixture
def quick(monkeypatch):
    """No mixing, which takes long, and whose loops would be compiled first."""
    monkeypatch.setattr(candidates, "takes_mixing", lambda *_, **__: False)
    monkeypatch.setattr(candidates, "takes_experts", lambda *_: False)


@pytest.fixture
def quick_folder(tmp_path, monkeypatch, quick):
    """An empty working folder, no models, and no mixing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(zoo, "directory", lambda: tmp_path / "models")
    return tmp_path
