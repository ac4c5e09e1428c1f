import os

import msgspec
import pytest
from answers import always
from contexts import context_with

from ddpcheck.checks.environment import low_processes
from ddpcheck.checks.environment.low_processes import Facts, judge, probe
from ddpcheck.finding import Severity
from ddpcheck.machine.cgroups import Room
from ddpcheck.machine.limits import Limit
from ddpcheck.machine.places import namespace, shared_place

PIDS = "the control group (pids.max)"
HERE = shared_place("node0")
IN_GROUP = shared_place("node0", "group", 0)
OF_USER = shared_place("node0", "user", os.getuid(), namespace("user"))


def ranks(
    limit: int, used: int, world: int = 8, hosts: int = 1, by: str = PIDS
) -> dict[int, Facts]:
    names = {r: f"node{r * hosts // world}" for r in range(world)}
    return {r: Facts(name, name, by, limit, used) for r, name in names.items()}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: Facts("node0", "node0")}, id="no limit"),
        pytest.param(ranks(2048, 150), id="podman"),
        pytest.param(ranks(1024, 300), id="Kubernetes"),
        pytest.param(ranks(4096, 3000, world=64, hosts=8), id="8 nodes"),
        pytest.param(ranks(100, 20, world=2), id="a small container"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_container_that_is_nearly_full() -> None:
    (finding,) = judge(ranks(256, 200))
    assert finding.severity is Severity.WARNING
    assert finding.ranks == tuple(range(8))
    assert [w for w in ("node0", "256", "200", "96 more") if w not in finding.message] == []
    assert "--pids-limit" in finding.fix


def test_only_the_host_that_is_short_is_named() -> None:
    facts = ranks(4096, 100, world=16, hosts=2) | ranks(100, 99, world=8)
    (finding,) = judge(facts)
    assert finding.ranks == tuple(range(8))


def test_a_container_counts_by_itself() -> None:
    # Together the ranks of both would start more than either has room for.
    twins = [Facts("node", place, PIDS, 100, 60) for place in "ab"]
    assert judge({rank: twins[rank // 3] for rank in range(6)}) == []
    full = msgspec.structs.replace(twins[1], used=70)
    (finding,) = judge(dict.fromkeys(range(3), twins[0]) | dict.fromkeys(range(3, 6), full))
    assert finding.ranks == (3, 4, 5)
    assert "on node (rank 3-5)" in finding.message
    (alone,) = judge({0: Facts("node", "c"), 1: Facts("node", "d", PIDS, 9, 9)})
    assert alone.ranks == (1,)


def test_many_hosts_are_one_finding() -> None:
    (finding,) = judge(ranks(100, 99, world=1000, hosts=125))
    assert "and 117 more" in finding.message


@pytest.mark.parametrize(
    ("group", "user", "free", "told"),
    [
        (None, None, False, Facts("node0", HERE)),
        (Room(100, 90), None, False, Facts("node0", IN_GROUP, PIDS, 100, 90)),
        (Room(100, 90), 95, False, Facts("node0", OF_USER, "the user (ulimit -u)", 95, 91)),
        (Room(100, 90), 4000, False, Facts("node0", IN_GROUP, PIDS, 100, 90)),
        (None, 95, True, Facts("node0", HERE)),
    ],
)
def test_the_limit_with_the_least_room_counts(
    group: Room | None,
    user: int | None,
    free: bool,
    told: Facts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(low_processes, "task_room", lambda: group)
    monkeypatch.setattr(low_processes, "limit", always(Limit(user, user)))
    monkeypatch.setattr(low_processes, "is_free_of_process_limit", lambda: free)
    monkeypatch.setattr(low_processes, "thread_count_of_user", lambda: 91)
    assert probe(context_with()) == told


def test_this_machine_is_fine() -> None:
    assert judge(dict.fromkeys(range(8), probe(context_with()))) == []
