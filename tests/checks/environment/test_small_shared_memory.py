import msgspec
import pytest

from ddpcheck.checks.environment.small_shared_memory import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity

MIB = 2**20
GPU = "2.28.9"


def ranks(
    free_mib: float, size_mib: float = 0, *, world: int = 1, hosts: int = 1, nccl: str = ""
) -> dict[int, Facts]:
    size_bytes = int((size_mib or max(free_mib, 1024)) * MIB)
    return {
        rank: shown(f"node{rank * hosts // world}", size_bytes, int(free_mib * MIB), nccl)
        for rank in range(world)
    }


def shown(name: str, size_bytes: int, free_bytes: int, nccl: str) -> Facts:
    """Return a rank of a host that has a /dev/shm of its own."""
    return Facts(name, name, name, size_bytes, free_bytes, nccl, loader_is_known=False)


def with_target(facts: dict[int, Facts]) -> dict[int, Facts]:
    """Return the ranks of a run whose target is the user's."""
    known = msgspec.structs.replace
    return {rank: known(own, loader_is_known=True) for rank, own in facts.items()}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(8000), id="a laptop"),
        pytest.param(ranks(24_000, world=8), id="8 ranks on a CPU"),
        pytest.param(ranks(100, world=2), id="a small machine for tests"),
        pytest.param(ranks(64_000, world=8, nccl=GPU), id="8 GPUs"),
        pytest.param(ranks(1023, 1024, world=8, nccl=GPU), id="what NCCL's manual asks for"),
        pytest.param(ranks(64_000, world=16, hosts=2, nccl=GPU), id="2 hosts"),
        pytest.param(ranks(100_000, world=1000, hosts=125, nccl=GPU), id="1000 ranks"),
        pytest.param(ranks(1023, 1024, nccl=GPU), id="one GPU"),
        pytest.param(with_target(ranks(8, 8, world=2)), id="a loader that is measured later"),
        pytest.param(with_target(ranks(63, 64, nccl=GPU)), id="the same on one GPU"),
        pytest.param(with_target(ranks(400, 512, world=8, nccl=GPU)), id="the same on 8 GPUs"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("nccl", [GPU, "2.20.5"])
def test_nccl_cannot_start_over_the_network(nccl: str) -> None:
    facts = ranks(64_000, world=16, hosts=2, nccl=nccl) | {
        rank: shown("node1", 64 * MIB, 3 * MIB, nccl) for rank in range(8, 16)
    }
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == tuple(range(8, 16))
    words = ["node1", "3 MiB", "64 MiB", "31.5 MiB" if nccl == GPU else "10 MiB"]
    assert [word for word in words if word not in finding.message] == []
    assert "--shm-size" in finding.fix
    assert "medium: Memory" in finding.fix
    assert "NCCL_SHM_DISABLE" not in finding.fix


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(3, 64, nccl=GPU, world=8), id="almost none, over NVLink it may do"),
        pytest.param(ranks(63, 64, nccl=GPU, world=8), id="a container's default, 8 GPUs"),
        pytest.param(ranks(63, 64, nccl=GPU), id="a container's default, one GPU"),
        pytest.param(ranks(63, 64, nccl=GPU, world=16, hosts=2), id="two queues do not fit"),
        pytest.param(ranks(8, 8, world=2), id="not even a batch"),
        pytest.param(ranks(10, 20_000, world=2), id="filled by others"),
    ],
)
def test_what_may_run_short_is_a_warning(facts: dict[int, Facts]) -> None:
    (finding,) = judge(facts)
    assert finding.severity is Severity.WARNING
    assert finding.confidence is Confidence.MEDIUM
    assert finding.ranks == tuple(facts)


def test_what_nccl_takes_counts_whatever_the_loader_does() -> None:
    (finding,) = judge(with_target(ranks(63, 64, nccl=GPU, world=8)))
    assert finding.severity is Severity.WARNING
    assert "NCCL may take up to 252 MiB for 8 rank(s)" in finding.message


def test_a_containers_default_is_told_on_a_cpu() -> None:
    (finding,) = judge(ranks(63.9, 64, world=8))
    assert finding.severity is Severity.INFO


def twins(free_mib: float, other_mib: float, nccl: str = GPU) -> dict[int, Facts]:
    """Return the ranks of two hosts of one name, four on each."""
    own = [
        shown(place, 2**40, int(mib * MIB), nccl)
        for place, mib in zip("ab", (free_mib, other_mib), strict=True)
    ]
    return {r: msgspec.structs.replace(own[r // 4], host="node") for r in range(8)}


def test_hosts_of_one_name_have_each_their_shared_memory() -> None:
    # It does for the ranks of either, and would not for those of both.
    assert judge(twins(600, 600)) == []
    (finding,) = judge(twins(600, 3))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (4, 5, 6, 7))
    assert "free for node (rank 4-7)" in finding.message


def test_containers_with_one_shared_memory_take_of_it_together() -> None:
    shared = {
        r: msgspec.structs.replace(own, place="one", host=f"pod{r}")
        for r, own in twins(600, 600).items()
    }
    (finding,) = judge(shared)
    assert (finding.severity, finding.ranks) == (Severity.WARNING, tuple(range(8)))


def test_a_hundred_hosts_are_one_finding() -> None:
    (finding,) = judge(ranks(1, 64, world=800, hosts=100, nccl=GPU))
    assert len(finding.ranks) == 800
    assert "and 92 more" in finding.message
    assert len(finding.message) < 400


def test_summary() -> None:
    facts = ranks(1024) | {1: shown("node1", 64 * MIB, 3 * MIB, "")}
    assert summarize(facts) == "3 MiB free at least"
