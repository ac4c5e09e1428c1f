import msgspec
import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.environment import low_memory
from ddpcheck.checks.environment.low_memory import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.cgroups import Room
from ddpcheck.machine.places import shared_place

MIB = 2**20


def ranks(limit_mib: int, used_mib: int, world: int = 8, hosts: int = 1) -> dict[int, Facts]:
    return {
        r: Facts(name, name, "the control group", limit_mib * MIB, used_mib * MIB)
        for r in range(world)
        for name in [f"node{r * hosts // world}"]
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(8000, 2000, 1), id="a laptop"),
        pytest.param(ranks(7000, 4000, 2), id="a small machine for tests"),
        pytest.param(ranks(7000, 6000, 8), id="8 ranks in 7 GB"),
        pytest.param(ranks(2_000_000, 100_000, 1000, 125), id="1000 ranks"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_container_that_is_nearly_full() -> None:
    (finding,) = judge(ranks(4096, 3900))
    assert finding.severity is Severity.WARNING
    assert finding.ranks == tuple(range(8))
    words = ["node0", "196 MiB", "4 GiB", "688 MiB", "the control group"]
    assert [word for word in words if word not in finding.message] == []
    assert "--memory" in finding.fix


def test_only_the_host_that_is_short_is_named() -> None:
    facts = ranks(64_000, 3000, 16, 2) | {
        9: Facts("node1", "node1", "the machine", 4096 * MIB, 4096 * MIB)
    }
    (finding,) = judge(facts)
    assert finding.ranks == tuple(range(8, 16))
    assert "node1" in finding.message


def test_hosts_of_one_name_have_each_their_memory() -> None:
    # Together the ranks of both would take more than either has left.
    twins = [Facts("node", place, "the machine", 4096 * MIB, 3700 * MIB) for place in "ab"]
    assert judge({rank: twins[rank // 4] for rank in range(8)}) == []
    short = msgspec.structs.replace(twins[1], used_bytes=3900 * MIB)
    (finding,) = judge(dict.fromkeys(range(4), twins[0]) | dict.fromkeys(range(4, 8), short))
    assert finding.ranks == (4, 5, 6, 7)
    assert "on node (rank 4-7) the machine has 196 MiB left" in finding.message


def test_containers_share_the_memory_of_their_machine() -> None:
    facts = {r: Facts(f"pod{r}", "same", "the machine", 4096 * MIB, 3900 * MIB) for r in range(4)}
    (finding,) = judge(facts)
    assert finding.ranks == (0, 1, 2, 3)
    assert judge({0: facts[0]}) == []


def test_many_hosts_are_one_finding() -> None:
    (finding,) = judge(ranks(4096, 4096, 1000, 125))
    assert "and 117 more" in finding.message


def test_summary() -> None:
    assert summarize(ranks(4096, 3900)) == "196 MiB left at least, of 4 GiB"


def test_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(low_memory, "tightest_memory", lambda: ("the machine", Room(10, 4)))
    place = shared_place("node0", "the machine", 0)
    assert probe(context_with()) == Facts("node0", place, "the machine", 10, 4)
    monkeypatch.setattr(low_memory, "tightest_memory", lambda: None)
    with pytest.raises(Skip, match="memory"):
        probe(context_with())


def test_this_machine_is_fine() -> None:
    assert judge({0: probe(context_with())}) == []
