"""All tests: hypothesis tries the same examples in every run, and no test looks at a clock."""

from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile("same")
