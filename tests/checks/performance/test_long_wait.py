import pytest

from ddpcheck.checks.performance.long_wait import Facts, Kept, judge, summarize
from ddpcheck.finding import Location, Severity
from ddpcheck.measures.waits import Place, Visit, kind

WAITS, COMES = Location("/train.py", 40, "prepare"), Location("/train.py", 44, "prepare")
BARRIER = Place("barrier", (), 3)


def visited(took_s: float, before_s: float = 0.0, **more: object) -> Facts:
    """Return a rank that was in the third barrier for so long, having come to it after so long."""
    timeout_s = more.get("timeout_s", 600.0)
    visit = Visit(took_s, before_s, str(more.get("inside", "")), WAITS, timeout_s)  # type: ignore[arg-type]
    place = more.get("place", BARRIER)
    assert isinstance(place, Place)
    return Facts((Kept(place, visit),), {kind(place): int(str(more.get("count", 4)))})


def through(count: int = 4, place: Place = BARRIER) -> Facts:
    """Return a rank that kept nothing of its barriers: they were short."""
    return Facts((), {kind(place): count})


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: through(), 1: through()}, id="nothing took long"),
        pytest.param({0: visited(4.0), 1: through()}, id="a wait of less than 5 s"),
        pytest.param({0: visited(30.0), 1: visited(28.0)}, id="a slow network: all were in it"),
        pytest.param({0: visited(30.0), 1: through(2)}, id="the other has never come there"),
        pytest.param({0: visited(0.1, 30.0), 1: visited(0.1, 30.0)}, id="all had much to do"),
        pytest.param({0: visited(30.0)}, id="a rank by itself"),
        pytest.param(
            {0: visited(9.0, place=Place("backward", (0, 2), 1)), 1: Facts((), {})},
            id="a rank of another group",
        ),
    ],
)
def test_short_waits_and_slow_networks_are_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("timeout_s", "severity"),
    [(600.0, Severity.INFO), (20.0, Severity.WARNING), (None, Severity.INFO)],
)
def test_who_waited_for_whom_and_where(timeout_s: float | None, severity: Severity) -> None:
    facts = {0: visited(0.1, 8.5), 1: visited(8.0, timeout_s=timeout_s), 2: visited(7.5)}
    if timeout_s != 600.0:
        facts[2] = visited(7.5, timeout_s=timeout_s)
        facts[0] = visited(0.1, 8.5, timeout_s=timeout_s)
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (severity, (0,))
    assert finding.title == "rank 1-2 waited 7.9 s for rank 0"
    assert "barrier" in finding.message
    assert "after 8.5 s of other work" in finding.message
    assert finding.location == WAITS


def test_what_the_late_rank_was_in_is_told() -> None:
    (finding,) = judge({0: visited(8.0), 1: visited(0.0, 8.0, inside="the forward pass")})
    assert finding.ranks == (1,)
    assert "most of it in the forward pass" in finding.message


def test_another_line_of_the_late_rank_is_told() -> None:
    late = Facts((Kept(BARRIER, Visit(0.0, 9.0, "", COMES)),), {kind(BARRIER): 3})
    (finding,) = judge({0: late, 1: visited(9.0)})
    assert "/train.py:44" in finding.message


def test_of_many_waits_at_one_line_the_longest_is_told() -> None:
    places = [Place("barrier", (), number) for number in (1, 2, 3)]
    kept = [Kept(p, Visit(6.0 + p.number, 0.0, "", WAITS)) for p in places]
    (finding,) = judge({0: through(), 1: Facts(tuple(kept), {kind(BARRIER): 3})})
    assert "waited 9.0 s" in finding.title


def test_summary() -> None:
    assert summarize({0: through(), 1: through(7)}) == "7 calls were timed"
