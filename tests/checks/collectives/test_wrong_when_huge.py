import pytest
from contexts import context_with

from ddpcheck.check import Joining, Profile, Skip
from ddpcheck.checks.collectives.wrong_when_huge import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.measures.wrong_elements import Wrong

ELEMENTS = 2**31 + 4099
RIGHT = Facts("nccl", 2, 2 * ELEMENTS)


def wrong(index: int) -> Facts:
    what = ("all_reduce", "uint8", "SUM", ELEMENTS, "in place", "blocking")
    first = Wrong(*what, index=index, expected=17, got=0, wrong_elements=ELEMENTS - index)
    return Facts("nccl", 2, 2 * ELEMENTS, {"all_reduce": 1}, (first,))


def test_right_elements_are_silent() -> None:
    assert judge({0: RIGHT, 1: RIGHT}) == []


def test_what_lies_behind_32_bits_is_named_with_its_rank() -> None:
    (finding,) = judge({0: RIGHT, 1: wrong(2**31)})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
    assert "in a message of more than 2^31 elements" in finding.title
    assert f"element {2**31} is 0, expected 17" in finding.message


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.STANDARD])
def test_other_profiles_skip_it(profile: Profile) -> None:
    with pytest.raises(Skip, match="--profile full"):
        probe(context_with(joining=Joining("gloo", 0.1), profile=profile))


def test_summary() -> None:
    assert summarize({0: RIGHT}) == "2 collectives of 2 GiB each compared"
