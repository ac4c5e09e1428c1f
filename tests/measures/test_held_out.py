import pytest

from ddpcheck.finding import Location
from ddpcheck.measures.held_out import KEPT_COUNT, Mixed, Seen, mixed

HERE = Location("/train.py", 30, "validate")
LOW, HIGH = tuple(range(20)), tuple(range(20, 40))


def seen(trained: tuple[int, ...], held_out: tuple[int, ...] = ()) -> Seen:
    return Seen(trained, held_out, (0, 1), HERE)


@pytest.mark.parametrize(
    "told",
    [
        pytest.param({0: seen(LOW, HIGH), 1: seen(LOW, HIGH)}, id="the same split"),
        pytest.param({0: seen(LOW[:10], HIGH), 1: seen(LOW[10:], HIGH)}, id="shares of one part"),
        pytest.param({0: seen(LOW, LOW), 1: seen(HIGH, HIGH)}, id="of what they train on"),
        pytest.param({0: seen(LOW, LOW + HIGH), 1: seen(HIGH)}, id="one rank evaluates on all"),
        pytest.param({0: seen((0, 1), (1, 2)), 1: seen((1, 2), (0, 1))}, id="all samples alike"),
        pytest.param({0: seen(LOW, HIGH), 1: seen((*LOW, 20, 21), HIGH)}, id="a few come twice"),
        pytest.param({0: seen(LOW, HIGH)}, id="one rank"),
        pytest.param({0: seen(LOW), 1: seen(HIGH)}, id="no evaluation"),
        pytest.param({0: seen((), LOW), 1: seen((), HIGH)}, id="nothing known of the training"),
        pytest.param({}, id="no rank"),
    ],
)
def test_silent(told: dict[int, Seen]) -> None:
    assert mixed(told) is None


def test_what_the_others_hold_out() -> None:
    assert mixed({0: seen(LOW, HIGH), 1: seen(HIGH, LOW)}) == Mixed(40, 40, HERE)


def test_one_rank_alone_evaluates() -> None:
    assert mixed({0: seen(LOW, HIGH), 1: seen(HIGH)}) == Mixed(20, 20, HERE)


def test_shares_of_many_ranks_count_together() -> None:
    shares = {rank: seen(tuple(range(rank * 4, rank * 4 + 4)), LOW) for rank in range(5, 9)}
    assert mixed({0: seen(HIGH, LOW)} | shares) is None
    shares = {rank: seen(tuple(range(rank * 4, rank * 4 + 4))) for rank in range(4)}
    assert mixed({9: seen(HIGH, LOW)} | shares) == Mixed(16, 20, HERE)


def test_no_more_is_compared_than_all_ranks_tell() -> None:
    many = tuple(range(KEPT_COUNT))
    beyond = tuple(range(KEPT_COUNT, KEPT_COUNT + 10))
    told = mixed({0: seen(HIGH, many), 1: seen(many, beyond)})
    assert told is None or told.compared <= KEPT_COUNT
