import pytest

from ddpcheck.checks.sharding.optimizer_of_more import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

OLD = Location("/lora.py", 30, "main")
NEW = Location("/lora.py", 12, "prepare")
GREW = Facts(40, 4, NEW, OLD)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: Facts(40), 1: Facts(40)}, id="no other one"),
        pytest.param({0: Facts(20), 1: Facts(19)}, id="stages of their own"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "bad"), [({0: GREW, 1: GREW}, (0, 1)), ({0: Facts(40), 3: GREW}, (3,))]
)
def test_an_optimizer_that_trains_more_than_the_script_asked_for(
    facts: dict[int, Facts], bad: tuple[int, ...]
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks, finding.location) == (Severity.WARNING, bad, NEW)
    assert finding.title == "the optimizer trains 40 parameters, not 4"
    assert f"at {OLD}" in finding.message
    assert "old.param_groups" in finding.fix


def test_summary() -> None:
    assert summarize({0: GREW}) == "40 parameters in the optimizer"
