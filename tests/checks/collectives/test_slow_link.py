from itertools import combinations

import pytest

from ddpcheck.checks.collectives.slow_link import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.measures.pair_speed import Exchange

MIB = 2**20


def ranks(
    hosts: str, gbps: dict[str, float], usual: float = 10.0, near: float = 100.0
) -> dict[int, Facts]:
    """Return a rank for each letter, its host; ``gbps`` has speeds that are unusual, by "0-1"."""
    found: dict[int, list[Exchange]] = {rank: [] for rank in range(len(hosts))}
    for one, other in combinations(range(len(hosts)), 2):
        fair = near if hosts[one] == hosts[other] else usual
        took_s = MIB / gbps.get(f"{one}-{other}", fair) / 1e9
        found[one].append(Exchange(other, MIB, took_s))
        found[other].append(Exchange(one, MIB, took_s))
    return {
        r: Facts(hosts[r], f"machine {hosts[r]}", "nccl", tuple(own)) for r, own in found.items()
    }


@pytest.mark.parametrize("hosts", ["aa", "ab", "aaa", "abc", "aabb", "aaaabbbb", "abcdefgh"])
def test_equal_links_are_silent(hosts: str) -> None:
    assert judge(ranks(hosts, {})) == []


def test_the_only_pair_has_nothing_to_be_compared_with() -> None:
    assert judge(ranks("ab", {"0-1": 0.001})) == []


def test_links_within_a_host_are_not_compared_with_those_between_hosts() -> None:
    assert judge(ranks("aabb", {}, usual=0.1, near=300)) == []


def test_a_bit_slower_is_silent() -> None:
    assert judge(ranks("abcd", {"0-1": 6.0, "0-2": 6.0, "0-3": 6.0})) == []


@pytest.mark.parametrize("slow", range(4))
def test_a_host_all_of_whose_links_are_slow_is_named(slow: int) -> None:
    pairs = {f"{a}-{b}": 1.0 for a, b in combinations(range(4), 2) if slow in (a, b)}
    (finding,) = judge(ranks("abcd", pairs))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (slow,))
    assert finding.title.startswith(f"host {'abcd'[slow]} exchanges")
    assert "1 GB/s" in finding.message
    assert "'s of their kind" not in finding.message
    assert f"network links of {'abcd'[slow]}" in finding.fix


def test_a_host_of_several_ranks_is_named_with_all_of_them() -> None:
    between = {f"{a}-{b}": 1.0 for a in (0, 1, 4, 5) for b in (2, 3)} | {
        f"{b}-{a}": 1.0 for b in (2, 3) for a in (4, 5)
    }
    (finding,) = judge(ranks("aabbcc", between))
    assert finding.ranks == (2, 3)
    assert "host b" in finding.title


def test_a_rank_all_of_whose_links_are_slow_is_named() -> None:
    (finding,) = judge(ranks("aaaa", {"0-2": 9, "1-2": 9, "2-3": 9}))
    assert finding.ranks == (2,)
    assert finding.title.startswith("rank 2 (a) exchanges")


def test_one_pair_is_named_as_a_pair() -> None:
    (finding,) = judge(ranks("aaaa", {"1-3": 20}))
    assert finding.ranks == (1, 3)
    assert "what lies between ranks 1 and 3" in finding.fix
    assert "1-3: 20 GB/s; others of their kind 100" in finding.message


def test_the_side_that_took_longer_counts() -> None:
    facts = ranks("aaaa", {})
    slow = Exchange(3, MIB, MIB / 1e9)
    kept = tuple(each for each in facts[1].exchanges if each.partner != 3)
    (finding,) = judge(facts | {1: Facts("a", "machine a", "nccl", (*kept, slow))})
    assert finding.ranks == (1, 3)


def test_summary_names_the_slowest_pair() -> None:
    assert summarize(ranks("aaaa", {"1-3": 20})) == (
        "6 pairs exchange 100 GB/s each way in the median, ranks 1 and 3 20"
    )


@pytest.mark.parametrize(("gbps", "told"), [(3.0, 0), (1.9, 1)])
def test_cpu_ranks_share_cores_and_may_differ_more(gbps: float, told: int) -> None:
    facts = ranks("abcd", {"0-1": gbps, "0-2": gbps, "0-3": gbps})
    on_cpu = {r: Facts(own.host, own.place, "gloo", own.exchanges) for r, own in facts.items()}
    found = judge(on_cpu)
    assert [each.ranks for each in found] == [(0,)] * told
    assert all("ip -s link" in each.fix for each in found)
