"""When two measurements really differ: beyond the bound, their own noise, and waits for cores."""

import pytest

from ddpcheck.measures.spread import MOST_WAITS, Spread, is_slower, seems_slower, spread_of

BOUND = 0.05


def around(median_s: float, width: float = 0.1, core_waits: float = 0.0) -> Spread:
    half = median_s * width / 2
    return Spread(median_s - 1.5 * half, median_s - half, median_s, median_s + half, core_waits)


@pytest.mark.parametrize(
    ("now", "before", "slower"),
    [
        pytest.param(around(2.0), around(1.0), True, id="twice as long"),
        pytest.param(around(1.0), around(2.0), False, id="half as long"),
        pytest.param(around(1.04, 0.001), around(1.0, 0.001), False, id="within the bound"),
        pytest.param(around(1.06, 0.001), around(1.0, 0.001), True, id="just beyond it"),
        pytest.param(around(1.5, 0.8), around(1.0, 0.8), False, id="middle halves that overlap"),
        pytest.param(Spread(0.5, 1.8, 2.0, 2.2), around(1.0), False, id="a go as quick as before"),
        pytest.param(around(2.0, 0.1, 0.2), around(1.0), True, id="more than it waited"),
        pytest.param(around(1.2, 0.1, 0.2), around(1.0), False, id="no more than it waited"),
        pytest.param(around(0.02, 0.1, MOST_WAITS), around(0.005), True, id="busy"),
        pytest.param(around(0.02, 0.1, 0.41), around(0.005), False, id="slices of others"),
        pytest.param(around(0.2, 0.1, 0.9), around(0.005), True, id="far slower than these"),
        pytest.param(around(2.0), around(1.0, 0.1, 0.9), True, id="it was busy before"),
    ],
)
def test_slower(now: Spread, before: Spread, *, slower: bool) -> None:
    assert is_slower(now, before, BOUND) is slower


def test_what_only_waits_for_cores_may_explain_seems_slower() -> None:
    assert seems_slower(around(9.0, 0.1, 0.95), around(1.0), BOUND)
    assert not seems_slower(around(9.0), around(1.0), BOUND)
    assert not seems_slower(around(1.0, 0.1, 0.9), around(1.0), BOUND)


def test_the_spread_of_goes() -> None:
    assert spread_of([4.0, 1.0, 2.0, 3.0, 5.0], 0.1) == Spread(1.0, 2.0, 3.0, 4.0, 0.1)
    assert spread_of([1.0]) is None
    assert spread_of([]) is None
