from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from contexts import context_with
from rdma_trees import LINK_LOCAL, USUAL, V1, V2, add_device

from ddpcheck.check import Skip
from ddpcheck.checks.network import wrong_gid_index
from ddpcheck.checks.network.wrong_gid_index import Facts, judge, probe, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.machine.infiniband import Gid, Port
from ddpcheck.network.rdma import Rdma, rdma
from ddpcheck.network.roce import GidRule

OLD, NEW = (2, 20, 5), (2, 28, 9)
LATE = {0: (LINK_LOCAL, V1), 1: (LINK_LOCAL, V2), 4: ("10.0.0.1", V1), 5: ("10.0.0.1", V2)}
BARE = {0: (LINK_LOCAL, V1), 1: (LINK_LOCAL, V2)}
SIX = BARE | {2: ("fd00::5", V1), 3: ("fd00::5", V2)}


def port(table: dict[int, tuple[str, str]], device: int = 0) -> Port:
    gids = tuple(Gid(index, *gid) for index, gid in table.items())
    return Port(f"mlx5_{device}", 1, "ACTIVE", "LinkUp", "Ethernet", usable=True, gids=gids)


def ranks(
    *tables: dict[int, tuple[str, str]],
    index: int | None = None,
    nccl: tuple[int, ...] = NEW,
    beside: int = 0,
    **told: Any,
) -> dict[int, Facts]:
    """Return the facts of two ranks a host: a table of addresses each, ports of InfiniBand beside."""
    rule = GidRule(index=index, **told)
    others = [
        Port(f"mlx5_{n + 4}", 1, "ACTIVE", "LinkUp", "InfiniBand", True) for n in range(beside)
    ]
    return {
        2 * host + local: Facts(
            Rdma(f"node{host}", f"p{host}", (port(table), *others), gid=rule), nccl
        )
        for host, table in enumerate(tables)
        for local in range(2)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(USUAL, USUAL), id="NCCL chooses"),
        pytest.param(ranks(USUAL, LATE), id="NCCL chooses on each host"),
        pytest.param(ranks(USUAL, USUAL, index=3, nccl=OLD), id="the right one is set"),
        pytest.param(ranks(USUAL, USUAL, index=3), id="the right one is set, and need not be"),
        pytest.param(ranks(USUAL, nccl=OLD), id="one host"),
        pytest.param(ranks(BARE, BARE, nccl=OLD), id="no better one anywhere"),
        pytest.param(ranks({}, {}, index=3), id="a table that cannot be read"),
        pytest.param(ranks(SIX, SIX, family=6), id="IPv6, and NCCL is told so"),
        pytest.param(ranks(SIX | LATE, USUAL, network="10.0.0.0/8"), id="within the range"),
        pytest.param(ranks(USUAL, USUAL, version=1), id="RoCE v1 is what is asked for"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_an_old_nccl_takes_the_first_one() -> None:
    (finding,) = judge(ranks(USUAL, USUAL, nccl=OLD))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.ranks == (0, 1, 2, 3)
    words = ["mlx5_0:1 on node0", LINK_LOCAL, V1, "not set", "2.20.5"]
    assert [word for word in words if word not in finding.message] == []
    assert finding.fix == "export NCCL_IB_GID_INDEX=3 on all ranks"


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_setting_that_is_not_routable(index: int) -> None:
    (finding,) = judge(ranks(USUAL, USUAL, index=index))
    assert finding.severity is Severity.WARNING
    assert "export NCCL_IB_GID_INDEX=3" in finding.fix


def test_a_setting_that_does_not_exist() -> None:
    (finding,) = judge(ranks(USUAL, USUAL, index=7))
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == (0, 1, 2, 3)
    assert "export NCCL_IB_GID_INDEX=3" in finding.fix


def test_a_setting_that_is_right_on_other_hosts() -> None:
    (finding,) = judge(ranks(USUAL, LATE, USUAL, index=3))
    assert finding.severity is Severity.ERROR
    assert finding.ranks == (2, 3)
    assert "unset NCCL_IB_GID_INDEX" in finding.fix


def test_an_old_nccl_needs_one_for_each_host() -> None:
    (finding,) = judge(ranks(USUAL, LATE, index=3, nccl=OLD))
    assert finding.ranks == (2, 3)
    assert "5 for mlx5_0:1 on node1" in finding.fix


def test_a_port_without_an_ip_address() -> None:
    (finding,) = judge(ranks(USUAL, BARE))
    assert finding.severity is Severity.WARNING
    assert finding.ranks == (2, 3)
    assert "IP address" in finding.fix
    assert "mlx5_0:1" in finding.fix


def test_one_port_of_several_may_not_be_used() -> None:
    facts = ranks(USUAL, USUAL, index=3)
    own = facts[2].rdma
    odd = msgspec.structs.replace(own, ports=(*own.ports, port(BARE, device=1)))
    (finding,) = judge(facts | {2: Facts(odd, NEW)})
    assert finding.severity is Severity.WARNING
    assert finding.ranks == (2,)
    assert "mlx5_1:1" in finding.message


def test_a_network_of_ipv6_alone() -> None:
    (finding,) = judge(ranks(SIX, SIX))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1, 2, 3))
    assert LINK_LOCAL in finding.message
    assert finding.fix.startswith("export NCCL_IB_ADDR_FAMILY=AF_INET6 on all ranks")


def test_a_family_that_the_network_does_not_have() -> None:
    (finding,) = judge(ranks(USUAL, USUAL, family=6))
    assert finding.severity is Severity.WARNING
    assert "NCCL_IB_ADDR_FAMILY is AF_INET6" in finding.message
    assert finding.fix.startswith("unset NCCL_IB_ADDR_FAMILY: ")


def test_a_range_without_any_of_the_addresses_stands_in_a_file() -> None:
    facts = ranks(USUAL, USUAL, network="192.168.0.0/16")
    origins = {"NCCL_IB_ADDR_RANGE": "/etc/nccl.conf"}
    facts = {
        rank: msgspec.structs.replace(own, rdma=msgspec.structs.replace(own.rdma, origins=origins))
        for rank, own in facts.items()
    }
    (finding,) = judge(facts)
    assert "NCCL_IB_ADDR_RANGE is 192.168.0.0/16" in finding.message
    assert finding.fix.startswith("remove NCCL_IB_ADDR_RANGE from /etc/nccl.conf: ")


def test_ipv6_on_one_host_alone_is_not_mended_on_all() -> None:
    (finding,) = judge(ranks(USUAL, BARE | {5: ("fd00::5", V2)}))
    assert finding.ranks == (2, 3)
    assert "AF_INET6" not in finding.fix


@pytest.mark.parametrize("index", [3, 7, None])
def test_storage_ports_beside_infiniband_are_a_note(index: int | None) -> None:
    (finding,) = judge(ranks(BARE, BARE if index else USUAL, beside=8, index=index))
    assert finding.severity is Severity.INFO
    assert finding.fix.endswith(
        "export NCCL_IB_HCA==" + ",".join(f"mlx5_{n}" for n in range(4, 12))
    )


def test_one_port_of_infiniband_does_not_excuse_those_of_roce() -> None:
    (finding,) = judge(ranks(USUAL, USUAL, index=7, beside=1))
    assert finding.severity is Severity.WARNING


def test_many_hosts_are_one_finding() -> None:
    (finding,) = judge(ranks(*[USUAL] * 100, nccl=OLD))
    assert len(finding.ranks) == 200
    assert len(finding.message) < 2000


def test_summary() -> None:
    assert summarize(ranks(USUAL, USUAL)) == "NCCL_IB_GID_INDEX is not set"
    assert summarize(ranks(USUAL, index=3)) == "NCCL_IB_GID_INDEX=3"


def test_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_device(tmp_path, "mlx5_0", layer="Ethernet", gids=USUAL)
    monkeypatch.setattr(wrong_gid_index, "rdma", partial(rdma, root=tmp_path))
    monkeypatch.setattr(wrong_gid_index, "nccl_of_torch", lambda: ".".join(map(str, OLD)))
    nccl = context_with(backend="nccl", device="cuda:0", environ={"NCCL_IB_GID_INDEX": "3"})
    told = probe(nccl)
    assert (told.nccl, told.rdma.gid) == (OLD, GidRule(index=3))
    assert [gid.index for gid in told.rdma.ports[0].gids] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("layer", "state", "reason"),
    [("InfiniBand", "ACTIVE", "no active RoCE port"), ("Ethernet", "DOWN", "no active RoCE port")],
)
def test_skips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: str, state: str, reason: str
) -> None:
    add_device(tmp_path, "mlx5_0", layer=layer, state=state, gids=USUAL)
    monkeypatch.setattr(wrong_gid_index, "rdma", partial(rdma, root=tmp_path))
    with pytest.raises(Skip, match=reason):
        probe(context_with(backend="nccl", device="cuda:0"))


def test_a_cpu_run_is_skipped() -> None:
    with pytest.raises(Skip, match="does not use NCCL"):
        probe(context_with())
