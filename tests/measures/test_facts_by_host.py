import msgspec

from ddpcheck.measures.hosts import by_place, grouped, host_names, joined, named


class Facts(msgspec.Struct, frozen=True):
    host: str
    place: str = ""


TWINS = {2: Facts("node", "2"), 0: Facts("node", "1"), 1: Facts("node", "2")}


def test_hosts_of_one_name_are_two_places() -> None:
    assert [list(ranks) for ranks in by_place(TWINS)] == [[0], [1, 2]]


def test_hosts_of_two_names_may_share_a_place() -> None:
    facts = {0: Facts("a", "1"), 1: Facts("b", "1")}
    assert by_place(facts) == [facts]
    assert host_names(facts) == ["a", "b"]
    assert named(facts) == "a, b (rank 0-1)"


def test_ranks_in_groups_and_together_again() -> None:
    facts = {rank: Facts(name) for rank, name in enumerate("abab")}
    groups = grouped(facts, lambda own: own.host)
    assert [list(ranks) for ranks in groups] == [[0, 2], [1, 3]]
    assert list(joined(groups)) == [0, 1, 2, 3]
    assert list(joined([groups[1], facts])) == [0, 1, 2, 3]
    assert joined([]) == {}


def test_hosts_are_named_once_in_the_order_of_their_ranks() -> None:
    assert host_names({1: Facts("a"), 0: Facts("b"), 2: Facts("b")}) == ["b", "a"]
    assert named(by_place(TWINS)[1]) == "node (rank 1-2)"
