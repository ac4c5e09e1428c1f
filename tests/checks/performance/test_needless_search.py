import msgspec
import pytest

from ddpcheck.checks.performance.needless_search import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 20, "main")
NEEDLESS = Facts(29, 30, all_used=True, is_sure=True, search_s=0.0004, location=LINE)


def changed(**fields: object) -> Facts:
    return msgspec.structs.replace(NEEDLESS, **fields)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: NEEDLESS, 1: changed(all_used=False)}, id="rank 1 needs it"),
        pytest.param({0: NEEDLESS, 1: changed(is_sure=False)}, id="several outputs"),
        pytest.param({0: changed(steps=4), 1: changed(steps=4)}, id="few steps"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_search_that_no_rank_needs_is_an_info() -> None:
    (finding,) = judge({0: NEEDLESS, 1: changed(search_s=0.0006, steps=29)})
    assert (finding.severity, finding.ranks, finding.location) == (Severity.INFO, (0, 1), LINE)
    assert "all 29 parameters got a gradient in each of 29 steps on every rank" in finding.message
    assert "0.60 ms" in finding.message


def test_summary() -> None:
    assert summarize({0: NEEDLESS}) == "DDP searches for 0.40 ms a forward pass"
