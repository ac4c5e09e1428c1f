import json
import re

import pytest

from ddpcheck.checks.ranks.report_not_kept import judge
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.testimony import State, Testimony

Ranks = dict[int, Testimony]

FULL = "[Errno 28] No space left on device: 'ddpcheck-reports/latest/ranks/1.jsonl'"
LOST = "[Errno 2] No such file or directory: 'ddpcheck-reports/latest/ranks/2.jsonl'"


def unkept(error: str = FULL, state: State = State.ENDED) -> Testimony:
    return Testimony(state=state, unkept=error)


def fine(size: int) -> Ranks:
    return dict.fromkeys(range(size), Testimony())


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(fine(1), id="one rank"),
        pytest.param(fine(64), id="64 ranks"),
        pytest.param(
            fine(3) | {1: Testimony(state=State.GONE, ended_by="SIGKILL", order=1)}, id="killed"
        ),
        pytest.param(
            fine(3) | {1: Testimony(state=State.RAISED, error=f"OSError: {FULL}")},
            id="a check's own disk is full",
        ),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "ranks", "error"),
    [
        pytest.param({0: unkept()}, (0,), FULL, id="the only rank"),
        pytest.param(fine(64) | {37: unkept()}, (37,), FULL, id="one of 64"),
        pytest.param(
            fine(3) | {2: unkept(LOST, State.BUSY)}, (2,), LOST, id="one that did not come through"
        ),
        pytest.param(
            fine(8) | {5: unkept(LOST), 2: unkept()}, (2, 5), FULL, id="two, in the ranks' order"
        ),
        pytest.param(dict.fromkeys(range(4), unkept()), (0, 1, 2, 3), FULL, id="a shared disk"),
    ],
)
def test_whose_file_is_not_whole(facts: Ranks, ranks: tuple[int, ...], error: str) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == ranks
    assert finding.title == (
        f"{len(ranks)} of {len(facts)} ranks could not write to the report directory"
    )
    assert f"rank {ranks[0]}" in finding.message
    assert error in finding.message
    assert "--report-dir" in finding.fix


# All that torchrun prints of a run is the message: it is left in the error file without its ranks.
def test_the_message_names_all_whose_file_is_not_whole() -> None:
    (finding,) = judge(fine(8) | {2: unkept(), 5: unkept()})
    listed = re.findall(r"ranks? (\d+(?:, \d+)*)", finding.message)
    assert sorted(rank for each in listed for rank in each.split(", ")) == ["2", "5"]


def test_the_evidence_keeps_what_each_was_told() -> None:
    (finding,) = judge(fine(4) | {1: unkept(), 2: unkept(LOST)})
    assert json.loads(json.dumps(finding.evidence)) == {"errors": {"1": FULL, "2": LOST}}
