import pytest

from ddpcheck.measures.peers import slower_than_peers


@pytest.mark.parametrize(
    ("speeds", "slow"),
    [
        ([100.0], {}),
        ([100.0, 100.0], {}),
        ([100.0, 86.0], {}),
        ([100.0, 84.0], {1: 100.0}),
        ([84.0, 100.0], {0: 100.0}),
        ([100.0, 100.0, 84.0], {2: 100.0}),
        ([50.0, 50.0, 100.0], {}),
        ([50.0, 50.0, 100.0, 100.0], {0: 100.0, 1: 100.0}),
        ([0.0, 0.0], {}),
        ([100.0] * 999 + [10.0], {999: 100.0}),
    ],
)
def test_the_slower_ones_are_named(speeds: list[float], slow: dict[int, float]) -> None:
    told = dict(enumerate(speeds))
    assert slower_than_peers(told, dict.fromkeys(told, "H100"), 0.85) == slow


def test_another_kind_is_no_peer() -> None:
    assert slower_than_peers({0: 100.0, 1: 10.0}, {0: "H100", 1: "T4"}, 0.85) == {}
