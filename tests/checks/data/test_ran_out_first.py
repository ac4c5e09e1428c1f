import msgspec
import pytest

from ddpcheck.checks.data.ran_out_first import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

BACKWARD = Location("/train.py", 12, "train")
OVER = Facts(5, 5, 5, has_ended=True, group=(0, 1), location=BACKWARD)
WAITS = Facts(6, 6, 6, has_ended=False, group=(0, 1), location=BACKWARD)


def changed(facts: Facts, **fields: object) -> Facts:
    return msgspec.structs.replace(facts, **fields)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: OVER, 1: OVER}, id="as many on each"),
        pytest.param({0: changed(OVER, has_ended=False), 1: WAITS}, id="one is late"),
        pytest.param({0: changed(OVER, forwards=6), 1: WAITS}, id="a backward was skipped"),
        pytest.param({0: changed(OVER, joins=True), 1: WAITS}, id="inside of join()"),
        pytest.param({0: OVER, 1: changed(WAITS, has_loader=True)}, id="a loader's epochs"),
        pytest.param({0: changed(OVER, group=(0,)), 1: changed(WAITS, group=(1,))}, id="alone"),
        pytest.param(
            {0: OVER, 1: changed(WAITS, forwards=9, backwards=9, averaged=5)},
            id="more in no_sync()",
        ),
        pytest.param(
            {0: OVER, 1: changed(OVER, forwards=5, backwards=8, averaged=8)},
            id="it trains another model alone, after all",
        ),
        pytest.param({0: OVER}, id="rank 1 told nothing"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("waits", [WAITS, changed(WAITS, has_ended=True)])
def test_a_rank_that_ended_while_the_other_waits(waits: Facts) -> None:
    (finding,) = judge({0: OVER, 1: waits})
    assert (finding.severity, finding.ranks, finding.location) == (Severity.ERROR, (0,), BACKWARD)
    assert "rank 0: 5, rank 1: 6" in finding.message
    assert "all_reduce a flag" in finding.fix


def test_summary() -> None:
    assert summarize({0: OVER, 1: WAITS}) == "5 or 6 backward passes on a rank"
