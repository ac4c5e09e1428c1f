"""The default preflight does no more than its budget: counted on real ranks, so no clock is in it."""

from __future__ import annotations

import json
import re

import pytest
from real_ranks import run, target

from ddpcheck.check import Stage
from ddpcheck.engine.plan import BUDGETS, Work

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
        assert over == {}, "done, and the budget in ddpcheck/engine/plan.py"


@pytest.mark.parametrize("stage", BUDGETS)
def test_a_budget_is_no_wider_than_it_need_be(stage: Stage, done: dict[Stage, list[Work]]) -> None:
    """A tenth of room, for what another torch offers: more would hide a check that was added."""
    for work in done[stage]:
        assert work != NOTHING
        assert [
            may - did for did, may in zip(work, BUDGETS[stage], strict=True) if may > 1.1 * did
        ] == []
