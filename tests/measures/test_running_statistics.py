import pytest

from ddpcheck.measures.running_statistics import Statistics, apart


def test_means_in_deviations_and_variances_by_factor() -> None:
    ranks = [
        Statistics("bn", (0.0, 1.0, 5.0), (4.0, 1.0, 1.0)),
        Statistics("bn", (2.0, 1.5, 5.0), (4.0, 3.0, 1.0)),
    ]
    told = apart(ranks)
    assert told.name == "bn"
    assert told.deviations == pytest.approx(0.5 / 2**0.5)
    assert told.ratio == 1.0


def test_nothing_varies() -> None:
    told = apart([Statistics("bn", (1.0,), (0.0,))] * 2)
    assert (told.deviations, told.ratio) == (0.0, 1.0)
    assert apart([Statistics("bn", (), ())] * 2).ratio == 0.0
