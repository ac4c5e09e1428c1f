import pytest

from ddpcheck.checks.collectives.mesh_across_hosts import Facts, judge
from ddpcheck.finding import Severity
from ddpcheck.measures.mesh import parse_mesh


def ranks(mesh: str, hosts: str) -> dict[int, Facts]:
    axes = parse_mesh(mesh)
    return {rank: Facts(axes, host, f"machine {host}") for rank, host in enumerate(hosts)}


@pytest.mark.parametrize(
    ("mesh", "hosts"),
    [
        ("dp=2,tp=4", "aaaabbbb"),
        ("tp=8", "aaaaaaaa"),
        ("tp=2,dp=4", "aaaaaaaa"),
        ("dp=4,tp=1", "abcd"),
        ("pp=2,TP=2", "aabb"),
    ],
)
def test_groups_inside_a_host_are_silent(mesh: str, hosts: str) -> None:
    assert judge(ranks(mesh, hosts)) == []


@pytest.mark.parametrize(
    ("mesh", "hosts", "split", "first"),
    [
        ("tp=2,dp=4", "aaaabbbb", "4 of 4", "ranks 0, 4 are on a, b"),
        ("dp=2,tp=4", "aaaaaabb", "1 of 2", "ranks 4, 5, 6, 7 are on a, b"),
        ("dp=2,tensor=4", "aabbccdd", "2 of 2", "ranks 0, 1, 2, 3 are on a, b"),
    ],
)
def test_groups_across_hosts_are_a_warning(mesh: str, hosts: str, split: str, first: str) -> None:
    (finding,) = judge(ranks(mesh, hosts))
    assert finding.severity is Severity.WARNING
    assert finding.title == f"{split} tensor-parallel groups are on several hosts"
    assert finding.message == first
    assert "put tp last in --mesh" in finding.fix


def test_only_the_ranks_of_split_groups_are_named() -> None:
    (finding,) = judge(ranks("dp=2,tp=4", "aaaaaabb"))
    assert finding.ranks == (4, 5, 6, 7)


def test_hosts_of_one_name_are_told_apart() -> None:
    facts = {rank: Facts(parse_mesh("tp=2"), "localhost", f"machine {rank}") for rank in range(2)}
    (finding,) = judge(facts)
    assert finding.ranks == (0, 1)
