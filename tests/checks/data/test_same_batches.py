from collections.abc import Sequence

import pytest

from ddpcheck.checks.data.same_batches import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

LOOP = Location("/train.py", 12, "train")
ALL = (0, 1)


def ranks(*batches: str, group: Sequence[int] = ALL, loads: bool = True) -> dict[int, Facts]:
    """Return ranks with these batches, a letter each."""
    return {
        rank: Facts(tuple(own), (), tuple(group), loads, LOOP) for rank, own in enumerate(batches)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks("abcd", "efgh"), id="other batches"),
        pytest.param(ranks("abcd", "dcba"), id="the same data in another order"),
        pytest.param(ranks("abcd", "abce"), id="some in common"),
        pytest.param(ranks("aaaa", "aaaa"), id="one batch over and over"),
        pytest.param(ranks("a", "a"), id="one batch"),
        pytest.param({0: Facts(("", "")), 1: Facts(("", ""))}, id="nothing to be compared"),
        pytest.param(
            {r: Facts(tuple("abc" if r < 2 else "def"), (), (r % 2, r % 2 + 2)) for r in range(4)},
            id="tensor-parallel ranks in groups of their own",
        ),
    ],
)
def test_healthy_data_are_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_equal_batches_are_an_error_with_the_loop() -> None:
    (finding,) = judge(ranks("abcd", "abcdef"))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1))
    assert finding.location == LOOP
    assert "the first 4 batches are equal bit by bit on ranks 0-1" in finding.message


def test_where_only_some_share_it_is_only_told() -> None:
    (finding,) = judge(ranks("abcd", "efgh", "abcd", "ijkl", group=range(4)))
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 2))


def test_ranks_that_take_their_parts_of_one_batch_are_silent() -> None:
    facts = {r: Facts(tuple("abcd"), (f"part {r}",), ALL, True, LOOP) for r in ALL}
    assert judge(facts) == []


def test_equal_inputs_of_equal_batches_are_an_error() -> None:
    facts = {r: Facts(tuple("abcd"), tuple("wxyz"), ALL, True, LOOP) for r in ALL}
    (finding,) = judge(facts)
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize("facts", [ranks("ab", "ab", group=()), ranks("ab", "ab", loads=False)])
def test_without_ddp_or_a_loader_it_is_only_told(facts: dict[int, Facts]) -> None:
    (finding,) = judge(facts)
    assert finding.severity is Severity.INFO


def test_summary() -> None:
    assert summarize(ranks("abcd", "ef")) == "the first 2 batches compared on 2 rank(s)"
