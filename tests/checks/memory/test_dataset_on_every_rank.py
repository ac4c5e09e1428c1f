import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.memory import dataset_on_every_rank
from ddpcheck.checks.memory.dataset_on_every_rank import Facts, Observer, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.cgroups import Room

GIB = 2**30


def ranks(used_gib: int, dataset_gib: int, world: int = 4, hosts: int = 1) -> dict[int, Facts]:
    """Return ranks on hosts of 64 GiB."""
    return {
        rank: Facts(host, host, "the machine", 64 * GIB, used_gib * GIB, dataset_gib * GIB)
        for rank in range(world)
        for host in [f"node{rank * hosts // world}"]
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(40, 8), id="there is room"),
        pytest.param(ranks(60, 0), id="something else fills it"),
        pytest.param(ranks(60, 2), id="copies that hardly matter"),
        pytest.param(ranks(60, 40, world=1), id="one rank, one copy"),
        pytest.param(ranks(60, 40, world=4, hosts=4), id="one rank on each host"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_copies_that_fill_a_host_are_a_warning() -> None:
    roomy = Facts("node1", "node1", "the machine", 64 * GIB, 20 * GIB)
    (finding,) = judge(ranks(60, 12) | dict.fromkeys((4, 5), roomy))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1, 2, 3))
    assert finding.title == "4 copies of the dataset fill a host's memory"
    words = ["node0 (rank 0-3)", "12 GiB", "48 GiB together", "60 GiB of 64 GiB"]
    assert [word for word in words if word not in finding.message] == []


def test_summary_and_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    assert summarize(ranks(32, 0)) == "50% of a host's memory used at most"
    with pytest.raises(Skip, match="only ddpcheck watch"):
        Observer(context_with()).facts()
    room = ("the machine", Room(10, 4))
    monkeypatch.setattr(dataset_on_every_rank, "tightest_memory", lambda: room)
    with pytest.raises(Skip, match="nothing was trained"):
        Observer(context_with(watches=True)).facts()
