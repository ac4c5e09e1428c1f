import pytest

from ddpcheck.checks.launch.restarted_in_vain import Attempt, Facts, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 3, "<module>")
IMPORT = "ModuleNotFoundError: No module named 'flash'"
LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:33504"
UNMET = "RuntimeError: Gloo connectFullMesh failed with [pair.cc:152]: Connection refused"


def starts(*ends: tuple[int, str], line: Location | None = LINE) -> Facts:
    """Return a rank whose starts ended in these steps, by these errors."""
    return Facts(tuple(Attempt(i, step, error, line) for i, (step, error) in enumerate(ends)))


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: Facts(()), 1: Facts(())}, id="nothing failed"),
        pytest.param({0: starts((0, IMPORT))}, id="the first start"),
        pytest.param({0: starts((0, IMPORT), (0, "OSError: full"))}, id="another error"),
        pytest.param({0: starts((40, "OSError: gone"), (7, "OSError: gone"))}, id="in training"),
        pytest.param({0: starts((0, IMPORT), (5, IMPORT))}, id="it came further"),
        pytest.param({0: starts((0, IMPORT), (0, LOST), (0, UNMET))}, id="peers failed after it"),
        pytest.param({0: starts((0, IMPORT), (5, LOST), (0, IMPORT))}, id="it trained in between"),
        pytest.param({0: starts((0, IMPORT), (0, LOST), (0, "OSError: x"))}, id="two errors"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_three_starts_that_fail_alike() -> None:
    same = starts((0, IMPORT), (0, IMPORT), (0, IMPORT))
    (finding,) = judge({0: same, 1: starts((0, "OSError: x"), (0, IMPORT), (0, IMPORT))})
    assert (finding.severity, finding.ranks, finding.location) == (Severity.ERROR, (0, 1), LINE)
    assert finding.title == "3 starts failed in the same way"
    assert IMPORT in finding.message
    assert "so ended 3 starts of rank 0" in finding.message


@pytest.mark.parametrize(
    "ends", [(IMPORT, UNMET, IMPORT), (LOST, IMPORT, IMPORT), (IMPORT, IMPORT, LOST)]
)
def test_starts_that_lost_a_peer_or_never_met_are_passed_over(ends: tuple[str, ...]) -> None:
    (finding,) = judge({0: starts((0, LOST)), 1: starts(*((0, end) for end in ends))})
    assert (finding.title, finding.ranks) == ("2 starts failed in the same way", (1,))
    assert IMPORT in finding.message


def test_starts_that_never_meet_are_told_as_well() -> None:
    (finding,) = judge({0: starts((0, UNMET), (0, UNMET))})
    assert UNMET in finding.message


def test_summary() -> None:
    assert summarize({0: starts((0, IMPORT)), 1: Facts(())}) == "1 failed starts"
