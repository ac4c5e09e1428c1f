import msgspec

from ddpcheck.measures.hosts import by_host, ranks_on


class Facts(msgspec.Struct, frozen=True):
    host: str


def test_ranks_of_each_host_in_order() -> None:
    facts = {2: Facts("b"), 0: Facts("a"), 1: Facts("b")}
    assert {host: list(ranks) for host, ranks in by_host(facts).items()} == {"a": [0], "b": [1, 2]}
    assert ranks_on(["b"], facts) == (1, 2)
    assert ranks_on([], facts) == ()
