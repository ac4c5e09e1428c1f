import pytest
from contexts import context_with

from ddpcheck.check import Context, Meeting, Skip
from ddpcheck.checks.launch.cannot_meet import FIXES, Facts, judge, probe, summarize
from ddpcheck.errors import ABSENT
from ddpcheck.finding import Severity
from ddpcheck.network.reach import Reached

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
    assert finding.evidence == {"place": PLACE, "duration_s": 60.0, "cause": "", "owner": ""}


OWNER = "pid 7 of user ada, 3 h old (python train.py)"


@pytest.mark.parametrize(
    ("kind", "owner", "words"),
    [
        (Reached.REFUSED, "", ["start rank 0 on the host of node0", "one MASTER_PORT", "29500"]),
        (Reached.FILTERED, "", ["open TCP port 29500 of node0 to node1", "firewall"]),
        (Reached.NO_ROUTE, "", ["give node1 a route to node0", "MASTER_ADDR"]),
        (Reached.UNRESOLVED, "", ["IP address of rank 0", "node1 can look up", "node0 is none"]),
        (Reached.SILENT, "", ["sidecar.istio.io/inject: 'false'", "port 29500"]),
        (Reached.CLOSED, "", ["sidecar.istio.io/inject: 'false'", "at node0"]),
        (Reached.OTHER, "", ["another MASTER_PORT", "29500 on node0"]),
        (Reached.OTHER, OWNER, ["end that process", "another MASTER_PORT", "ip_local_port_range"]),
        (Reached.SILENT, OWNER, ["end that process", "another MASTER_PORT"]),
    ],
)
def test_each_cause_has_a_fix_of_its_own(kind: Reached, owner: str, words: list[str]) -> None:
    (finding,) = judge({1: Facts(PLACE, 60.0, REFUSED, "node1", kind, owner)})
    assert [word for word in words if word not in finding.fix] == []
    assert (finding.evidence["cause"], finding.evidence["owner"]) == (kind, owner)


def test_every_way_to_fail_has_a_fix() -> None:
    assert set(FIXES) == {ABSENT, *Reached} - {Reached.OPEN}


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
    met = Meeting(PLACE, 1.5, error, kind="closed", owner=OWNER)
    assert probe(context(met)) == Facts(PLACE, 1.5, error, "node1", "closed", OWNER)


def test_a_run_without_a_meeting_skips() -> None:
    with pytest.raises(Skip, match="did not try to meet"):
        probe(context(None))
