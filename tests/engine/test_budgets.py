"""The default preflight does no more than its budget: counted on real ranks, so no clock is in it."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import pytest
from real_ranks import run, target

from ddpcheck.check import Stage


class Work(NamedTuple):
    """What one rank does: calls of groups, the bytes they take in and out, and the target's training."""

    collectives: int
    bytes: int
    passes: int
    steps: int


# The most that a stage does in the default profile on two gloo ranks. A preflight is run before every
# job only as long as it takes no longer than the launcher's own start, and on a machine as small as a CI
# service's it is these that take the time: they are the same however busy it is. A stage's checks are
# counted together; who needs more raises the number here, with the reason. Earlier stages have no group.
BUDGETS = {
    # 951 calls, at some 2 ms each on two busy cores, with 484 MB: one or two for each of the 304 cases of
    # wrong-values, which have all dtypes and ops of an all-reduce, and of the 96 of wrong-at-times; and 308
    # that low-bandwidth times, 20 goes of each collective in two sizes where the machine is fast, with
    # 415 MB. The others have some tens each: one more like those fits, and no more sizes or goes.
    Stage.COLLECTIVES: Work(collectives=1000, bytes=500_000_000, passes=0, steps=0),
    # 4 steps are rehearsed; the split takes 2 to warm up, and 4. The other 17 passes make gradients
    # alone: for no_sync, for one process in float64, and for bf16.
    Stage.REHEARSAL: Work(collectives=0, bytes=0, passes=28, steps=10),
}

LINE = re.compile(r"^work (\{.*\})$", re.MULTILINE)
NOTHING = Work(0, 0, 0, 0)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[Stage, list[Work]]:
    """Return what each of two ranks did in each stage that has a group."""
    folder = tmp_path_factory.mktemp("budgets") / "reports"
    given = ("--profile", "standard", "--target", target("engine/counting_target:factory"))
    ended = run(folder, *given)
    assert ended.exit_code == 0, ended.stderr
    told = [json.loads(line) for line in LINE.findall(ended.stdout)]
    ranks = [[_work(each) for each in told if each["rank"] == rank] for rank in (0, 1)]
    collectives = [own[0] for own in ranks]
    rehearsal = [_less(own[-1], own[0]) for own in ranks]
    return {Stage.COLLECTIVES: collectives, Stage.REHEARSAL: rehearsal}


def _work(told: dict[str, int]) -> Work:
    return Work(**{name: told[name] for name in Work._fields})


def _less(work: Work, before: Work) -> Work:
    return Work(*(now - then for now, then in zip(work, before, strict=True)))


@pytest.mark.parametrize("stage", BUDGETS)
def test_a_stage_keeps_to_its_budget(stage: Stage, done: dict[Stage, list[Work]]) -> None:
    for work in done[stage]:
        over = {
            what: (did, may)
            for what, did, may in zip(Work._fields, work, BUDGETS[stage], strict=True)
            if did > may
        }
        assert over == {}, "done, and the budget above"


@pytest.mark.parametrize("stage", BUDGETS)
def test_a_budget_is_no_wider_than_it_need_be(stage: Stage, done: dict[Stage, list[Work]]) -> None:
    """A tenth of room, for what another torch offers: more would hide a check that was added."""
    for work in done[stage]:
        assert work != NOTHING
        assert [
            may - did for did, may in zip(work, BUDGETS[stage], strict=True) if may > 1.1 * did
        ] == []
