"""A short run of ``kills.py``: a rank anywhere, a rank and the job amid the writing of a checkpoint."""

import random
from pathlib import Path

import pytest
from kills import run


@pytest.mark.thorough
def test_three_kills_leave_the_curve_as_it_was(tmp_path: Path) -> None:
    assert run(tmp_path, "fsdp", runs=3, seed=random.randrange(1000))
