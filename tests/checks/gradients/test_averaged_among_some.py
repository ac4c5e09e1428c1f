from typing import Any

import pytest

from ddpcheck.checks.gradients.averaged_among_some import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 42, "average")
ONE, OTHER = (0, 2), (1, 3)


def told(**own: Any) -> dict[int, Facts]:
    """Return four ranks of two groups that start alike, and end as their groups do."""
    facts: dict[int, Facts] = {}
    for rank in range(4):
        group = OTHER if rank % 2 else ONE
        end = str(rank % 2)
        kept: dict[str, Any] = {
            "before": {"w": "start", "expert": str(rank)},
            "after": {"w": end, "expert": f"later {rank}"},
            "norms": ("start", end, end),
            "steps": 9,
            "location": LINE,
            "losses": (float(rank),),
        }
        facts[rank] = Facts(group=group, **(kept | own))
    return facts


def test_several_trainings_in_one_job_are_only_told() -> None:
    (finding,) = judge(told())
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 1, 2, 3))
    assert finding.location == LINE
    assert finding.message.startswith("w is the first of 1 parameters")


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"links": [(0, 1), (2, 3)]}, "share passes of one model"),
        ({"replicas": 4}, "a DistributedSampler deals one dataset to all of them"),
    ],
)
def test_groups_of_one_training_are_a_warning(own: dict[str, Any], said: str) -> None:
    (finding,) = judge(told(**own))
    assert finding.severity is Severity.WARNING
    assert said in finding.message
    assert "averaged among ranks 0, 2, and apart among ranks 1, 3" in finding.title


def test_stages_of_which_one_has_the_loss_are_only_told() -> None:
    facts = told(links=[(0, 1)])
    for rank in OTHER:
        own = facts[rank]
        facts[rank] = Facts(own.group, own.before, own.after, own.steps, own.norms, own.links)
    (finding,) = judge(facts)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"losses": (2.5,)}, id="one loss: they split one model"),
        pytest.param({"losses": ()}, id="no loss of which anything is known"),
    ],
)
def test_links_of_one_model_that_is_split_tell_nothing(own: dict[str, Any]) -> None:
    (finding,) = judge(told(links=[(0, 1)], **own))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(told(after={"w": "end"}), id="alike in the end"),
        pytest.param(
            told(before={"w": "start", "v": "start"}, after={"w": "end", "v": "end"}),
            id="all of them alike",
        ),
        pytest.param(told(before={}), id="nothing was alike at first"),
        pytest.param({0: told()[0], 2: told()[2]}, id="the other group has told nothing"),
        pytest.param(
            {r: own for r, own in told().items() if r % 2 == 0}
            | {r: own for r, own in told(steps=3).items() if r % 2},
            id="stopped in another step",
        ),
    ],
)
def test_what_is_no_fault(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_parameters_that_stay_alike_beside_others_belong_to_a_split_model() -> None:
    facts = told()
    kept = {
        rank: Facts(
            own.group, own.before | {"tok": "t"}, own.after | {"tok": "u"}, own.steps, own.norms
        )
        for rank, own in facts.items()
    }
    assert judge(kept) == []


def test_groups_that_come_together_again_are_averaged_now_and_then() -> None:
    facts = told()
    for rank, own in facts.items():
        end = str(rank % 2)
        norms = ("start", end, "both", end)
        facts[rank] = Facts(own.group, own.before, own.after, own.steps, norms)
    assert judge(facts) == []


def test_summary() -> None:
    assert summarize(told()) == "2 groups average apart: ranks 0, 2, ranks 1, 3"
