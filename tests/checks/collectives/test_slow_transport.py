import pytest

from ddpcheck.checks.collectives.slow_transport import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.nccl_log import Path, transport_of


def ranks(
    hosts: str,
    words: str,
    *,
    near: bool = True,
    ports: dict[str, str] | None = None,
    settings: dict[str, str] | None = None,
    warnings: tuple[str, ...] = (),
) -> dict[int, Facts]:
    """Return ranks in a ring, their hosts by letter, all of whose paths go that way."""
    world = len(hosts)
    uuids = [f"GPU-{rank}" for rank in range(world)]
    return {
        rank: Facts(
            host=f"node{host}",
            machine=host,
            uuid=uuids[rank],
            readable=tuple(uuids) if near else (),
            hca_ports=ports or {},
            paths=(Path(rank, (rank + 1) % world, transport_of(words), words),),
            settings=settings or {},
            warnings=warnings,
        )
        for rank, host in enumerate(hosts)
    }


IB = {"mlx5_0:1": "InfiniBand"}
ROCE = {"mlx5_0:1": "Ethernet"}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks("aa", "P2P/CUMEM"), id="peer-to-peer"),
        pytest.param(ranks("aa", "P2P/IPC/read"), id="peer-to-peer, older"),
        pytest.param(
            ranks("aa", "SHM/direct/direct", near=False), id="shared memory, all there is"
        ),
        pytest.param(ranks("ab", "NET/Socket"), id="sockets, all there is"),
        pytest.param(ranks("ab", "NET/IB/GDRDMA", ports=IB), id="InfiniBand"),
        pytest.param(ranks("ab", "NET/IB", ports=IB), id="InfiniBand through the host"),
        pytest.param(ranks("ab", "NET/AWS", ports=ROCE), id="a plugin"),
        pytest.param(ranks("aa", "P2P/CUMEM", settings={"NCCL_NET": "IB"}), id="a switch is set"),
    ],
)
def test_the_fastest_way_there_is_is_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_shared_memory_beside_nvlink_is_a_warning_with_the_switch() -> None:
    facts = ranks("aa", "SHM/direct/direct", settings={"NCCL_P2P_DISABLE": "1"})
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert "ranks 0-1, 1-0 go via SHM/direct/direct" in finding.message
    assert "NCCL_P2P_DISABLE=1" in finding.message
    assert finding.fix == "unset NCCL_P2P_DISABLE, unless it is meant"


def test_sockets_beside_infiniband_are_an_error_with_ncclss_reason() -> None:
    facts = ranks("ab", "NET/Socket", ports=IB, warnings=("NET/IB : No device found.",))
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1))
    assert finding.title == "hosts with InfiniBand exchange data by sockets"
    assert "NET/IB : No device found." in finding.message
    assert "mlx5_0:1" in finding.message
    assert "--device /dev/infiniband" in finding.fix


def test_sockets_beside_roce_are_a_warning() -> None:
    (finding,) = judge(ranks("ab", "NET/Socket", ports=ROCE, settings={"NCCL_IB_DISABLE": "1"}))
    assert finding.severity is Severity.WARNING
    assert "NCCL_IB_DISABLE" in finding.fix


def test_only_one_host_with_ports_is_silent() -> None:
    facts = ranks("ab", "NET/Socket", ports=IB)
    assert judge(facts | {1: ranks("ab", "NET/Socket")[1]}) == []


def test_only_the_pairs_concerned_are_named() -> None:
    facts = ranks("aabb", "P2P/CUMEM", ports=IB) | {
        1: ranks("aabb", "NET/Socket", ports=IB)[1],
        3: ranks("aabb", "NET/Socket", ports=IB)[3],
    }
    (finding,) = judge(facts)
    assert finding.ranks == (0, 1, 2, 3)
    assert "ranks 1-2, 3-0 go via NET/Socket" in finding.message


def test_paths_to_ranks_that_told_nothing_are_left_out() -> None:
    assert judge({0: ranks("aa", "SHM")[0]}) == []


def test_summary_counts_paths() -> None:
    assert summarize(ranks("aa", "P2P/CUMEM")) == "2 paths via P2P/CUMEM"
