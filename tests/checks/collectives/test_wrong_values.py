import math

import msgspec
import pytest

from ddpcheck import jsontext
from ddpcheck.checks.collectives.wrong_values import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.wrong_elements import Wrong

Ranks = dict[int, Facts]

CASES = 420
NAN, INF = float("nan"), float("inf")
REFUSED: dict[str, tuple[str, ...]] = {
    "Cannot use ReduceOp.AVG with Gloo": ("all_reduce AVG float32",)
}
ODD_TAIL = Wrong("all_reduce", "bfloat16", "SUM", 1023, "contiguous", "async", 1022, 7.0, 6.0, 1)
MOVED = Wrong("all_gather", "uint8", "move", 7, "unaligned", "blocking", 0, 118.0, 3.0, 7)


def rank(*wrong: Wrong, counts: dict[str, int] | None = None, backend: str = "gloo") -> Facts:
    return Facts(
        backend=backend,
        cases=CASES,
        elements=144_340,
        wrong_cases=counts or {each.kind: 1 for each in wrong},
        wrong=wrong,
        refused=REFUSED,
    )


def ranks(world: int, *bad: int, wrong: Wrong = ODD_TAIL) -> Ranks:
    return {each: rank(wrong) if each in bad else rank() for each in range(world)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1), id="one rank"),
        pytest.param(ranks(2), id="two ranks"),
        pytest.param(ranks(8), id="eight ranks"),
        pytest.param({3: rank(), 7: rank()}, id="ranks that told nothing"),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


# As told by two H200 with torch 2.11 and NCCL 2.28.9.
PREMUL = Wrong(
    *("all_reduce", "bfloat16", "PREMUL_SUM", 1023, "unaligned", "async"),
    *(0, 20.0, 0.0, 1023),
    turn=69,
)


def knowing(*wrong: Wrong) -> Facts:
    return msgspec.structs.replace(rank(*wrong, backend="nccl"), known=(PREMUL,))


def test_a_known_fault_of_the_library_on_every_rank_is_told_and_no_more() -> None:
    (finding,) = judge({0: knowing(), 1: knowing()})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 1))
    assert "PREMUL_SUM of 1023 bfloat16" in finding.message
    assert "pytorch/issues/190745" in finding.message


def test_beside_a_known_fault_a_wrong_element_is_an_error() -> None:
    error, told = judge({0: knowing(), 1: knowing(ODD_TAIL)})
    assert (error.severity, error.ranks) == (Severity.ERROR, (1,))
    assert told.severity is Severity.INFO


def test_a_wrong_element_in_the_case_of_a_known_fault_is_an_error_on_its_rank_alone() -> None:
    other = msgspec.structs.replace(PREMUL, got=-1.0)
    error, told = judge({0: knowing(), 1: rank(other, backend="nccl")})
    assert (error.severity, error.ranks) == (Severity.ERROR, (1,))
    assert (told.severity, told.ranks) == (Severity.INFO, (0,))


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
    assert finding.title == f"all_reduce gives wrong values on {title}"
    assert finding.message == (
        f"rank {bad[0]}: all_reduce, SUM of 1023 bfloat16 (contiguous, async): element 1022 is 6, "
        f"expected 7; 1 elements of it are wrong; 1 of {CASES} cases are wrong there "
        "(all_reduce: 1)"
    )


def test_what_moves_data_has_no_op() -> None:
    (finding,) = judge(ranks(2, 1, wrong=MOVED))
    assert "rank 1: all_gather, 7 uint8 (unaligned, blocking): element 0 is 3" in finding.message


def test_several_collectives_are_one_finding_on_the_ranks_of_the_narrowest() -> None:
    counts = {"all_reduce": 40, "all_gather": 3}
    facts = dict.fromkeys(range(8), rank(ODD_TAIL)) | {2: rank(ODD_TAIL, MOVED, counts=counts)}
    (finding,) = judge(facts)
    assert finding.title == "2 collectives give wrong values on 8 of 8 ranks"
    assert finding.ranks == (2,)
    assert finding.message.startswith("rank 2: all_gather, 7 uint8")
    assert "43 of 420 cases are wrong there (all_reduce: 40, all_gather: 3)" in finding.message
    assert finding.evidence == {
        "collective": "all_gather",
        "dtype": "uint8",
        "op": "move",
        "size": 7,
        "index": 0,
        "expected": 118.0,
        "got": 3.0,
        "turn": 0,
        "wrong_cases": {str(each): 43 if each == 2 else 1 for each in range(8)},
    }


@pytest.mark.parametrize(("backend", "word"), [("nccl", "NCCL_P2P_DISABLE"), ("gloo", "memory")])
def test_the_fix_is_one_of_the_backend(backend: str, word: str) -> None:
    (finding,) = judge({0: rank(ODD_TAIL, backend=backend), 1: rank(backend=backend)})
    assert word in finding.fix


@pytest.mark.parametrize(
    ("value", "shown"), [(NAN, "nan"), (INF, "inf"), (-INF, "-inf"), (1e30, "1e+30"), (0.0, "0")]
)
def test_any_wrong_value_can_be_shown(value: float, shown: str) -> None:
    wrong = msgspec.structs.replace(ODD_TAIL, got=value)
    (finding,) = judge(ranks(2, 1, wrong=wrong))
    assert f"element 1022 is {shown}, expected 7;" in finding.message


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_any_wrong_value_comes_through_the_channel(value: float) -> None:
    sent = jsontext.encode(rank(msgspec.structs.replace(ODD_TAIL, got=value)))
    arrived = msgspec.convert(msgspec.json.decode(sent), Facts, strict=False)
    assert str(arrived.wrong[0].got) == str(value)
    (finding,) = judge({0: rank(), 1: arrived})
    assert math.isnan(value) or finding.evidence["got"] == value


@pytest.mark.parametrize("world", [1, 2, 8])
def test_a_backend_that_refuses_everything_is_an_error(world: int) -> None:
    facts = dict.fromkeys(range(world), Facts("gloo", 0, 0, refused={"no such kernel": ("a",)}))
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, tuple(range(world)))
    assert "no such kernel" in finding.message


def test_a_rank_that_compared_nothing_is_named_alone() -> None:
    (finding,) = judge(ranks(8) | {5: Facts("gloo", 0, 0)})
    assert finding.ranks == (5,)


def test_summary_tells_how_much_was_compared_and_what_is_not_offered() -> None:
    assert summarize({0: rank(), 1: rank()}) == (
        "420 collectives, 144,340 elements compared on each rank; 1 kinds of them "
        "not offered by gloo"
    )
