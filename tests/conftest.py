"""Hypothesis tries the same examples in every run, and an example may take any time."""

from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile("same")
