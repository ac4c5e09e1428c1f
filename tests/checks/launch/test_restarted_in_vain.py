import pytest

from ddpcheck.checks.launch.restarted_in_vain import Attempt, Facts, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 3, "<module>")
IMPORT = "ModuleNotFoundError: No module named 'flash'"


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
    assert "so ended the last 3 starts of rank 0" in finding.message


def test_summary() -> None:
    assert summarize({0: starts((0, IMPORT)), 1: Facts(())}) == "1 failed starts"
