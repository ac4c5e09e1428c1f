import pytest

from ddpcheck.checks.sharding.buffers_differ import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/model.py", 30, "shard")


def ranks(*digests: str, name: str = "rotary.inv_freq") -> dict[int, Facts]:
    return {rank: Facts({name: each, "mask": "m"}, LINE) for rank, each in enumerate(digests)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks("a"), id="one rank"),
        pytest.param(ranks("a", "a", "a", "a"), id="all alike"),
        pytest.param({0: Facts({}), 1: Facts({})}, id="no such buffers"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "odd"),
    [
        (ranks("a", "b"), (1,)),
        (ranks("a", "b", "a", "a"), (1,)),
        (ranks("b", "a", "a", "a"), (0,)),
        (ranks("a", "b", "c", "d"), (0, 1, 2, 3)),
    ],
)
def test_a_buffer_that_differs_is_an_error_on_the_odd_ranks(
    facts: dict[int, Facts], odd: tuple[int, ...]
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks, finding.location) == (Severity.ERROR, odd, LINE)
    assert "rotary.inv_freq" in finding.message
    assert "mask" not in finding.message


def test_summary() -> None:
    assert summarize(ranks("a", "a")) == "2 buffers compared"
