import pytest
from contexts import context_with

from ddpcheck.check import Context, Meeting, Skip
from ddpcheck.checks.launch.cannot_meet import Facts, judge, probe, summarize
from ddpcheck.finding import Severity

PLACE = "node0:29500"
REFUSED = f"rank 1 on node1 cannot meet the others at {PLACE}: Connection refused, for 60 s"
STRANGER = f"rank 2 on node1 cannot meet the others at {PLACE}: it does not answer as a store"


def met(world: int, duration_s: float = 0.25) -> dict[int, Facts]:
    return {rank: Facts(PLACE, duration_s, "") for rank in range(world)}


def context(meeting: Meeting | None) -> Context:
    return context_with(rank=1, world_size=2, host="node1", meeting=meeting)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(met(1), id="one rank"),
        pytest.param(met(8), id="eight ranks"),
        pytest.param(met(2, 59.9), id="slow is no fault"),
        pytest.param({1: met(2)[1], 5: met(6)[5]}, id="ranks that told nothing"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("error", [REFUSED, STRANGER])
@pytest.mark.parametrize("alone", [True, False])
def test_a_rank_that_cannot_meet_the_others_is_an_error_that_says_what_is_in_the_way(
    error: str, alone: bool
) -> None:
    facts = ({} if alone else met(4)) | {1: Facts(PLACE, 60.0, error)}
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
    assert (finding.title, finding.message) == (f"no meeting at {PLACE}", error)
    assert "MASTER_ADDR" in finding.fix
    assert "MASTER_PORT" in finding.fix
    assert finding.evidence == {"place": PLACE, "duration_s": 60.0}


def test_several_are_one_finding_with_the_words_of_the_first() -> None:
    facts = {2: Facts(PLACE, 60.0, STRANGER), 0: met(1)[0], 1: Facts(PLACE, 60.0, REFUSED)}
    (finding,) = judge(facts)
    assert (finding.ranks, finding.message) == ((1, 2), REFUSED)


def test_summary_tells_how_long_the_slowest_rank_took() -> None:
    assert summarize(met(8) | {3: Facts(PLACE, 2.04, "")}) == "8 ranks met in 2.0 s"


def test_summary_does_not_say_that_all_met_when_some_did_not() -> None:
    assert summarize(met(8) | {3: Facts(PLACE, 60.0, REFUSED)}) == ""


@pytest.mark.parametrize("error", ["", REFUSED])
def test_the_facts_are_those_of_the_engines_meeting(error: str) -> None:
    assert probe(context(Meeting(PLACE, 1.5, error))) == Facts(PLACE, 1.5, error)


def test_a_run_without_a_meeting_skips() -> None:
    with pytest.raises(Skip, match="did not try to meet"):
        probe(context(None))
