"""Which passes over a loader nobody told an epoch."""

import pytest

from ddpcheck.measures.orders import Pass, are_alike, untold


def passes(told: str, orders: str, made: str = "") -> list[Pass]:
    """Return passes of these epochs and orders, and how many optimizers had been made by then."""
    counts = [int(each) for each in made or "1" * len(told)]
    each = zip(told, orders, counts, strict=True)
    return [Pass(int(epoch), count, [order], 8, count) for epoch, order, count in each]


@pytest.mark.parametrize(
    ("told", "orders", "count"),
    [
        pytest.param("012", "ABC", 1, id="each is told"),
        pytest.param("001", "AAB", 1, id="a search first"),
        pytest.param("0001", "AAAB", 1, id="a search of two passes first"),
        pytest.param("0101", "ABAB", 1, id="two stages"),
        pytest.param("000", "AAA", 3, id="none is told"),
        pytest.param("0011", "AABB", 2, id="each is told for two"),
        pytest.param("001", "AAA", 2, id="what was told changed nothing"),
        pytest.param("01", "AA", 1, id="a sampler of its own"),
    ],
)
def test_passes_since_another_epoch_was_told(told: str, orders: str, count: int) -> None:
    assert len(untold(passes(told, orders))) == count


@pytest.mark.parametrize(("made", "count"), [("11", 2), ("12", 1), ("123", 2), ("122", 2)])
def test_a_pass_with_an_optimizer_of_its_own_is_left_out_once(made: str, count: int) -> None:
    assert len(untold(passes("0" * len(made), "A" * len(made), made))) == count


def test_what_nobody_trained_on_does_not_count() -> None:
    assert untold([Pass(0, 1, ["A"], 8), Pass(0, 1, ["A"], 8)]) == []


def test_the_shorter_one_decides() -> None:
    assert are_alike("ab", "abc")
    assert not are_alike("ab", "acb")
