import pytest

from ddpcheck.measures.peers import are_linked, grouped, outside_majority, slower_than_peers


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


@pytest.mark.parametrize(
    ("told", "odd"),
    [
        ("", ()),
        ("a", ()),
        ("aa", ()),
        ("ab", (0, 1)),
        ("aab", (2,)),
        ("baab", (0, 1, 2, 3)),
        ("aabcc", (0, 1, 2, 3, 4)),
        ("abcaa", (1, 2)),
    ],
)
def test_outside_the_majority(told: str, odd: tuple[int, ...]) -> None:
    assert outside_majority(dict(enumerate(told))) == odd


def test_ranks_are_grouped_by_what_they_tell() -> None:
    assert grouped({3: "a", 0: "b", 1: "a"}) == {"b": [0], "a": [1, 3]}
    assert grouped({}) == {}


def test_links_make_a_chain() -> None:
    assert are_linked((0, 1, 2), [(1, 2), (0, 1)])
    assert are_linked((0, 2), [(0, 1), (1, 2)])
    assert not are_linked((0, 1, 2, 3), [(0, 1), (2, 3)])
    assert not are_linked((0, 1), [])
