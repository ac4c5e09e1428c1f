import math

import msgspec
import pytest

from ddpcheck import jsontext
from ddpcheck.checks.collectives.wrong_allreduce import Facts, Wrong, judge, summarize
from ddpcheck.finding import Confidence, Severity

Ranks = dict[int, Facts]

CASES = 420
NAN, INF = float("nan"), float("inf")
REFUSED = {"AVG float32": "Cannot use ReduceOp.AVG with Gloo"}
ODD_TAIL = Wrong("bfloat16", "SUM", 1023, "contiguous", "async", 1022, 7.0, 6.0, 1)


def rank(*wrong: Wrong, wrong_cases: int = 0, refused: dict[str, str] = REFUSED) -> Facts:
    return Facts(CASES, 144_340, wrong_cases or len(wrong), wrong, refused)


def ranks(world: int, *bad: int, wrong: Wrong = ODD_TAIL) -> Ranks:
    return {each: rank(wrong) if each in bad else rank() for each in range(world)}


def got(value: float) -> Wrong:
    return msgspec.structs.replace(ODD_TAIL, got=value)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1), id="one rank"),
        pytest.param(ranks(2), id="two ranks"),
        pytest.param(ranks(8), id="eight ranks"),
        pytest.param({0: rank(refused={}), 1: rank(refused={})}, id="a backend that offers all"),
        pytest.param({3: rank(), 7: rank()}, id="ranks that told nothing"),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "bad", "title"),
    [
        pytest.param(ranks(1, 0), (0,), "1 of 1 ranks", id="the only rank"),
        pytest.param(ranks(2, 0), (0,), "1 of 2 ranks", id="rank 0 of two"),
        pytest.param(ranks(2, 1), (1,), "1 of 2 ranks", id="rank 1 of two"),
        pytest.param(ranks(2, 0, 1), (0, 1), "2 of 2 ranks", id="both, as a lost rank makes it"),
        pytest.param(ranks(8, 5), (5,), "1 of 8 ranks", id="one of eight"),
        pytest.param(ranks(8, *range(8)), tuple(range(8)), "8 of 8 ranks", id="all of eight"),
        pytest.param(
            {3: rank(), 5: rank(ODD_TAIL)}, (5,), "1 of 2 ranks", id="ranks that told nothing"
        ),
        pytest.param(
            dict(reversed(ranks(8, 6, 2).items())), (2, 6), "2 of 8 ranks", id="in any order"
        ),
    ],
)
def test_a_wrong_element_is_an_error_on_the_ranks_that_got_it(
    facts: Ranks, bad: tuple[int, ...], title: str
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == bad
    assert finding.title == f"all-reduce gives wrong values on {title}"
    assert finding.message == (
        f"rank {bad[0]}: SUM of 1023 bfloat16 (contiguous, async): element 1022 is 6, "
        f"expected 7; 1 elements of it and 1 of {CASES} cases are wrong there"
    )


def test_the_evidence_is_the_first_wrong_case_and_the_count_on_each_rank() -> None:
    other = Wrong("uint8", "MAX", 7, "transposed", "blocking", 0, 118.0, 3.0, 7)
    facts = ranks(8) | {2: rank(ODD_TAIL, other, wrong_cases=40), 6: rank(other)}
    (finding,) = judge(facts)
    assert finding.evidence == {
        "dtype": "bfloat16",
        "op": "SUM",
        "size": 1023,
        "index": 1022,
        "expected": 7.0,
        "got": 6.0,
        "wrong_cases": {"2": 40, "6": 1},
    }
    assert "1 elements of it and 40 of 420 cases" in finding.message


@pytest.mark.parametrize(
    ("value", "shown"), [(NAN, "nan"), (INF, "inf"), (-INF, "-inf"), (1e30, "1e+30"), (0.0, "0")]
)
def test_any_wrong_value_can_be_shown(value: float, shown: str) -> None:
    (finding,) = judge(ranks(2, 1, wrong=got(value)))
    assert f"element 1022 is {shown}, expected 7;" in finding.message


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_any_wrong_value_comes_through_the_channel(value: float) -> None:
    sent = jsontext.encode(rank(got(value)))
    arrived = msgspec.convert(msgspec.json.decode(sent), Facts, strict=False)
    assert str(arrived.wrong[0].got) == str(value)
    (finding,) = judge({0: rank(), 1: arrived})
    assert math.isnan(value) or finding.evidence["got"] == value


@pytest.mark.parametrize("world", [1, 2, 8])
def test_a_backend_that_refuses_everything_is_an_error(world: int) -> None:
    refused = {"SUM float32": "no such kernel", "AVG float32": "no"}
    facts = dict.fromkeys(range(world), Facts(0, 0, 0, (), refused))
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, tuple(range(world)))
    assert "no such kernel" in finding.message


def test_a_rank_that_compared_nothing_is_named_alone() -> None:
    (finding,) = judge(ranks(8) | {5: Facts(0, 0, 0, (), {})})
    assert finding.ranks == (5,)


def test_summary_tells_how_much_was_compared_and_what_is_not_offered() -> None:
    refused = {"MAX uint8": "no", "AVG float32": "no"}
    facts = {0: rank(refused=refused), 1: rank(refused=refused)}
    assert summarize(facts) == (
        "420 all-reduces, 144,340 elements compared on each rank; "
        "not offered: AVG float32, MAX uint8"
    )
    assert summarize({0: rank(refused={})}).endswith("elements compared on each rank")
