"""When the sentinel is late: what is done for the check that runs, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ddpcheck.engine.storeless import Storeless


class Check:
    """Where the rank is: in a check, before or after its deadline, and how often its end was moved."""

    busy = True
    check = "data/missing-file"
    standstill = None

    def __init__(self, *, overran: bool) -> None:
        self.overran = overran
        self.moved = 0

    def put_off_the_end(self) -> None:
        self.moved += 1


def storeless_beside(where: Any) -> Storeless:
    task: Any = SimpleNamespace(deadline_s=30.0)
    return Storeless(task, where)


@pytest.mark.parametrize(("overran", "moved"), [(False, 0), (True, 2)])
def test_the_end_of_a_check_is_moved_once_it_is_due_and_not_before(
    overran: bool, moved: int
) -> None:
    where = Check(overran=overran)
    storeless = storeless_beside(where)
    storeless.look(0.5)
    storeless.look(0.5)
    assert where.moved == moved


def test_a_sentinel_that_comes_round_leaves_the_end_alone() -> None:
    where = Check(overran=True)
    storeless = storeless_beside(where)
    for _ in range(3):
        storeless.turns += 1
        storeless.look(0.5)
    assert where.moved == 0


def test_a_check_of_a_watched_script_has_no_end_to_move() -> None:
    where = Check(overran=True)
    where.check = "watch/script"
    storeless_beside(where).look(0.5)
    assert where.moved == 0
