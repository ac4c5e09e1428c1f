import pytest

from ddpcheck.checks.data.epoch_not_set import Facts, Order, judge, summarize
from ddpcheck.finding import Location, Severity

LOOP = Location("/train.py", 12, "train")
FIRST, SECOND = ("a", "b", "c"), ("c", "a", "b")


def ranks(*epochs: tuple[str, ...], samples: int = 12, world: int = 2) -> dict[int, Facts]:
    return {rank: Facts((Order(LOOP, epochs, samples),), 0) for rank in range(world)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(FIRST), id="one epoch"),
        pytest.param(ranks(FIRST, ()), id="the second has not begun"),
        pytest.param(ranks((), FIRST), id="the first gave nothing"),
        pytest.param(ranks(FIRST, SECOND), id="another order"),
        pytest.param(ranks(FIRST, ("a", "c", "b")), id="the same first batch"),
        pytest.param(ranks(FIRST, ("a",)), id="few samples may be the same by chance"),
        pytest.param({0: Facts((), 2), 1: Facts((), 2)}, id="nothing that shuffles by epochs"),
    ],
)
def test_healthy_orders_are_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("second", [FIRST, FIRST[:2]])
@pytest.mark.parametrize("world", [1, 2, 64])
def test_the_same_order_is_an_error_at_the_loop(second: tuple[str, ...], world: int) -> None:
    (finding,) = judge(ranks(FIRST, second, world=world))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, tuple(range(world)))
    assert finding.location == LOOP
    assert "set_epoch" in finding.fix


def test_only_the_rank_that_saw_it_is_named() -> None:
    (finding,) = judge({0: ranks(FIRST, SECOND)[0], 1: ranks(FIRST, FIRST)[1]})
    assert finding.ranks == (1,)


def test_without_shuffled_orders_the_summary_says_so() -> None:
    assert "no loader" in summarize({0: Facts((), 2)})
