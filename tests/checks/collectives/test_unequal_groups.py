from collections.abc import Sequence

import pytest

from ddpcheck.checks.collectives.unequal_groups import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.measures.disjoint_groups import Group, Split, splits

MIB = 2**20


def hosts(
    count: int,
    each: int,
    slow: dict[tuple[Split, int], float] | None = None,
    *,
    kinds: Sequence[str] = (),
    backend: str = "gloo",
) -> dict[int, Facts]:
    """Return ranks whose groups take 1 ms, but for those named by split and number."""
    places = [f"node{rank // each}" for rank in range(count * each)]
    groups = splits(places)
    return {
        rank: Facts(
            place,
            kinds[rank // each] if kinds else "cpu",
            backend,
            tuple(
                Group(split, ranks, MIB, (slow or {}).get((split, number), 0.001))
                for split, all_groups in groups.items()
                for number, ranks in enumerate(all_groups)
                if rank in ranks
            ),
        )
        for rank, place in enumerate(places)
    }


def test_hosts_and_rails() -> None:
    assert splits(["a", "a", "b", "b", "c", "c"]) == {
        Split.HOSTS: [(0, 1), (2, 3), (4, 5)],
        Split.RAILS: [(0, 2, 4), (1, 3, 5)],
    }
    assert splits(["a", "b", "a", "b"])[Split.HOSTS] == [(0, 2), (1, 3)]


@pytest.mark.parametrize("places", [["a"] * 8, ["a", "b"], ["a", "a", "b"], ["a"]])
def test_nothing_to_compare(places: list[str]) -> None:
    assert splits(places) == {}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(hosts(2, 2), id="alike"),
        pytest.param(hosts(128, 8), id="1024 ranks"),
        pytest.param(hosts(4, 2, {(Split.HOSTS, 1): 0.003}), id="a third of the speed on CPUs"),
        pytest.param(
            hosts(4, 2, {(Split.HOSTS, 1): 0.01}, kinds=["A100", "T4", "A100", "A100"]),
            id="another model",
        ),
        pytest.param(
            hosts(2, 8, {(Split.RAILS, 1): 0.004}, backend="nccl"), id="rails that share a card"
        ),
        pytest.param(hosts(2, 2, {(Split.RAILS, 0): 0.01, (Split.RAILS, 1): 0.01}), id="all slow"),
    ],
)
def test_healthy_groups_are_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("count", [2, 3, 128])
def test_a_slow_host_is_named(count: int) -> None:
    (finding,) = judge(hosts(count, 2, {(Split.HOSTS, 1): 0.01}))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (2, 3))
    assert finding.title == "host node1 carries out collectives more slowly than others"
    assert "0.105 GB/s bus bandwidth, other hosts 1.05, limit 20%" in finding.message


def test_a_gpu_host_at_less_than_half_is_named() -> None:
    facts = hosts(3, 8, {(Split.HOSTS, 1): 0.0021}, kinds=["H100"] * 3, backend="nccl")
    (finding,) = judge(facts)
    assert finding.ranks == tuple(range(8, 16))


def test_a_slow_rail_is_named() -> None:
    (finding,) = judge(hosts(3, 2, {(Split.RAILS, 1): 0.02}))
    assert finding.ranks == (1, 3, 5)
    assert (
        finding.title
        == "the rail of ranks 1, 3, 5 (one of every host) carries out collectives more slowly than others"
    )
    assert "network cards on node0, node1, node2" in finding.fix


def test_the_slowest_rank_of_a_group_tells_its_time() -> None:
    facts = hosts(2, 2)
    slow = tuple(
        Group(each.split, each.ranks, MIB, 0.02) if each.split is Split.HOSTS else each
        for each in facts[3].groups
    )
    (finding,) = judge(facts | {3: Facts("node1", "cpu", "gloo", slow)})
    assert finding.ranks == (2, 3)


def test_summary() -> None:
    assert summarize(hosts(3, 2)) == "3 hosts and 2 rails across them compared"
