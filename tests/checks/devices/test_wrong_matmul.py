import msgspec
import pytest

from ddpcheck.checks.devices.wrong_matmul import Facts, judge
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.wrong_values import WrongProduct

WRONG = WrongProduct("bfloat16", "sums of whole numbers", 777, 1234, "9.0", "nan", 3)


def rank(number: int, **changed: object) -> Facts:
    own = Facts(f"node{number // 8}", f"cuda:{number % 8}", 12, (), ())
    return msgspec.structs.replace(own, **changed)


def job(world: int) -> dict[int, Facts]:
    return {number: rank(number) for number in range(world)}


@pytest.mark.parametrize("world", [1, 2, 1000])
def test_silent(world: int) -> None:
    assert judge(job(world)) == []


def test_a_wrong_product_names_device_and_element() -> None:
    (found,) = judge(job(16) | {9: rank(9, wrong=(WRONG,))})
    assert (found.severity, found.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert found.ranks == (9,)
    for word in ("rank 9 (node1, cuda:1)", "bfloat16", "row 777", "is nan", "expected exactly 9.0"):
        assert word in found.message
    assert "dcgmi diag" in found.fix


def test_a_product_that_changes_is_another_finding() -> None:
    facts = job(2) | {0: rank(0, unsteady=("float32",)), 1: rank(1, wrong=(WRONG,))}
    wrong, unsteady = judge(facts)
    assert (wrong.ranks, unsteady.ranks) == ((1,), (0,))
    assert unsteady.severity is Severity.ERROR
    assert "float32" in unsteady.message


def test_what_is_wrong_is_told_once() -> None:
    assert len(judge({0: rank(0, unsteady=("float32",), wrong=(WRONG,))})) == 1


def test_many_ranks_are_no_wall_of_text() -> None:
    (found,) = judge({number: rank(number, wrong=(WRONG,)) for number in range(1000)})
    assert "and 992 more" in found.message
