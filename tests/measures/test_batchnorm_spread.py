from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpcheck.measures.batchnorm import Layer, spread

LARGEST_FLOAT32 = 3.4028235e38


def layer(means: Sequence[float], variances: Sequence[float] = ()) -> Layer:
    return Layer(
        name="bn",
        kind="torch.nn.modules.batchnorm.BatchNorm1d",
        synchronized=False,
        custom=False,
        samples=32,
        values=32,
        means=tuple(means),
        variances=tuple(variances) or (1.0,) * len(means),
    )


@pytest.mark.parametrize(
    ("ranks", "apart"),
    [
        pytest.param([], 0.0, id="nobody"),
        pytest.param([layer([])], 0.0, id="no batch was seen"),
        pytest.param([layer([1.0, 5.0])], 0.0, id="one rank"),
        pytest.param([layer([1.0]), layer([1.0])], 0.0, id="alike"),
        pytest.param([layer([1.0]), layer([1.5])], 0.5, id="two ranks"),
        pytest.param([layer([3.0]), layer([1.0]), layer([2.0])], 2.0, id="the widest pair"),
        pytest.param([layer([0.0], [4.0]), layer([3.0], [4.0])], 1.5, id="in deviations"),
        pytest.param([layer([0.0], [1.0]), layer([3.0], [17.0])], 1.0, id="of the mean variance"),
        pytest.param([layer([0.0], [0.0]), layer([0.0], [0.0])], 0.0, id="a dead channel"),
        pytest.param([layer([0.0], [0.0]), layer([2.0], [0.0])], 2.0, id="constants that differ"),
        pytest.param(
            [layer([0.0, 0.0, 0.0]), layer([9.0, 0.1, 0.2])], 0.2, id="the median channel"
        ),
        pytest.param([layer([0.0] * 3), layer([0.0, 0.0, 50.0])], 0.0, id="one channel is noise"),
        pytest.param([layer([0.0] * 2), layer([0.0, 5.0])], 5.0, id="of two channels, the wider"),
        pytest.param(
            [layer([-LARGEST_FLOAT32]), layer([LARGEST_FLOAT32])],
            2 * LARGEST_FLOAT32,
            id="what was infinite",
        ),
    ],
)
def test_spread(ranks: list[Layer], apart: float) -> None:
    assert spread(ranks) == pytest.approx(apart)
    assert spread(ranks[::-1]) == pytest.approx(apart)


numbers = st.floats(-100, 100)
rank = st.tuples(numbers, numbers, numbers)


@given(st.lists(rank, min_size=2, max_size=8), st.floats(-100, 100), st.floats(0.01, 100))
def test_a_shift_or_a_unit_that_all_ranks_share_changes_nothing(
    means: list[tuple[float, ...]], shift: float, unit: float
) -> None:
    before = spread([layer(each) for each in means])
    moved = [layer([m * unit + shift for m in each], [unit**2] * 3) for each in means]
    assert spread(moved) == pytest.approx(before, abs=1e-9 * (100 + abs(shift) / unit))


@given(st.lists(rank, min_size=1, max_size=8), rank)
def test_one_more_rank_never_makes_it_smaller(
    means: list[tuple[float, ...]], more: tuple[float, ...]
) -> None:
    ranks = [layer(each) for each in means]
    assert spread([*ranks, layer(more)]) >= spread(ranks)
