import msgspec
import pytest

from ddpcheck.machine.hosts import by_host, listed, ranks_on, size


class Facts(msgspec.Struct, frozen=True):
    host: str


def test_ranks_of_each_host_in_order() -> None:
    facts = {2: Facts("b"), 0: Facts("a"), 1: Facts("b")}
    assert {host: list(ranks) for host, ranks in by_host(facts).items()} == {"a": [0], "b": [1, 2]}
    assert ranks_on(["b"], facts) == (1, 2)
    assert ranks_on([], facts) == ()


def test_long_lists_are_cut() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(range(1000)) == "0, 1, 2, 3, 4, 5, 6, 7 and 992 more"


@pytest.mark.parametrize(
    ("count_bytes", "told"),
    [
        (0, "0 bytes"),
        (1000, "1000 bytes"),
        (65536, "64 KiB"),
        (64 * 2**20, "64 MiB"),
        (33_030_528, "31.5 MiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (2**52, "4096 TiB"),
    ],
)
def test_sizes(count_bytes: float, told: str) -> None:
    assert size(count_bytes) == told
