"""Before any test imports torch: one thread a process, as tests run in parallel."""

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_pycollect_makeitem(obj: object) -> list[pytest.Item] | None:
    """Keep pytest from taking ddpcheck's own testimonies, by their names, for tests."""
    is_ours = str(getattr(obj, "__module__", "")).startswith("ddpcheck.")
    return [] if is_ours else None
