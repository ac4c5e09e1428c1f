"""Before any test imports torch: one thread a process, as tests run in parallel."""

import os

import hypothesis
import pytest

# A repository of a user's, and a package of checks: each has tests of its own.
collect_ignore = ["testing/repository", "example_plugin"]
os.environ.setdefault("OMP_NUM_THREADS", "1")
# An example may take as long as it takes on a machine that does much else.
hypothesis.settings.register_profile("busy machine", deadline=None)
hypothesis.settings.load_profile("busy machine")


def pytest_pycollect_makeitem(obj: object) -> list[pytest.Item] | None:
    """Keep pytest from taking ddpcheck's own testimonies, by their names, for tests."""
    is_ours = str(getattr(obj, "__module__", "")).startswith("ddpcheck.")
    return [] if is_ours else None
