from typing import Any

import pytest
from vector_sketches import sketched

from ddpcheck.checks.buffers.go_apart import Facts, judge, summarize
from ddpcheck.finding import Confidence, Location, Severity

PAIR = (0, 1)
LINE = Location("/vq.py", 40, "train")
START = {"queue": sketched(5.0), "codes": sketched(1.0, 1.0)}


def rank(codes: float = 1.5, queue: float = 6.0, **own: Any) -> Facts:
    after = {"queue": sketched(queue), "codes": sketched(codes, 1.0)}
    told: dict[str, Any] = {
        "group": PAIR,
        "before": START,
        "gradual": ("codes",),
        "steps": 40,
        "line": LINE,
    } | own
    return Facts(after=after, **told)


def test_a_codebook_of_each_rank_is_named_before_a_queue() -> None:
    (finding,) = judge({0: rank(), 1: rank(codes=1.7, queue=9.0)})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, PAIR)
    assert finding.location == LINE
    assert finding.message.startswith("codes is the first of 1")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(rank(queue=9.0), id="a queue of past samples"),
        pytest.param(rank(codes=1.501), id="hardly apart"),
    ],
)
def test_what_may_be_meant_is_only_told(other: Facts) -> None:
    (finding,) = judge({0: rank(), 1: other})
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.LOW)
    assert "may be meant" in finding.message


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: rank(), 1: rank()}, id="alike"),
        pytest.param({0: rank(), 1: rank(codes=1.7, steps=3)}, id="one stopped in another step"),
        pytest.param(
            {0: rank(), 1: rank(codes=1.7, before=START | {"codes": sketched(7.0)})},
            id="other ones from the start",
        ),
        pytest.param({0: rank(), 1: rank(codes=1.7, group=(1, 2))}, id="of other groups"),
    ],
)
def test_what_is_no_fault(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_summary() -> None:
    assert summarize({0: rank(), 1: rank()}) == "2 buffers compared on 2 ranks over 40 steps"
