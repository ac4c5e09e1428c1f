import pytest

from ddpcheck.checks.devices.bad_memory import MIB, Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.wrong_values import WrongMemory

GOOD = 0x5555555555555555


WRONG = WrongMemory("0101", 79_999_992, GOOD, GOOD | 1 << 17, 4)


def rank(number: int, *wrong: WrongMemory) -> Facts:
    return Facts("node0", f"cuda:{number}", 256 * MIB, wrong)


@pytest.mark.parametrize("world", [1, 1000])
def test_silent(world: int) -> None:
    assert judge({number: rank(number) for number in range(world)}) == []


def test_bad_memory_tells_place_and_bits() -> None:
    (found,) = judge({0: rank(0), 1: rank(1, WRONG)})
    assert (found.severity, found.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert found.ranks == (1,)
    for word in ("rank 1 (node0, cuda:1)", "offset 79999992", "bits: 17", "0x5555555555575555"):
        assert word in found.message
    assert "dcgmi diag" in found.fix


def test_an_error_that_is_gone_on_the_second_look() -> None:
    (found,) = judge({0: rank(0, WrongMemory("0101", 0, GOOD, GOOD, 1))})
    assert "none when read again" in found.message


def test_many_ranks_are_no_wall_of_text() -> None:
    (found,) = judge({number: rank(number, WRONG) for number in range(1000)})
    assert "and 992 more" in found.message


def test_summary() -> None:
    assert summarize({0: rank(0)}) == "256 MiB of each GPU's memory written and read back"
