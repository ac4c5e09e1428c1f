from typing import Any

import msgspec
import pytest
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices import peer_access_blocked
from ddpcheck.checks.devices.peer_access_blocked import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.gpu import SWITCH, Gpu, Link, Peer
from ddpcheck.machine.pci import Port

OK = 0
CHIPSET = 1
GPU_CANNOT = 2
DRIVER_SETTING = 4
NOT_SUPPORTED = 5
ONE_SWITCH = 10
PROCESSOR = 30


def way(rank: int, switch: bool, redirects: bool | None) -> tuple[Port, ...]:
    """Return the path of a GPU: through a switch that it shares, or a root port of its own."""
    above = (f"down{rank}", "up", "root") if switch else (f"root{rank}",)
    return (
        Port(f"gpu{rank}", 16, 16, False),
        *(Port(name, 16, 16, redirects) for name in above),
    )


def gpu(
    rank: int,
    read: int | None = OK,
    nvlink: int | None = NOT_SUPPORTED,
    topology: int | None = PROCESSOR,
    *,
    ranks: int = 2,
    redirects: bool | None = False,
    **changed: object,
) -> Facts:
    """Return a GPU of a host, whose way to all others is the same."""
    own = Facts(
        host="node0",
        machine="machine0",
        uuid=f"GPU-{rank}",
        pci=f"gpu{rank}",
        name="NVIDIA A40",
        remotes=(),
        peers=tuple(
            Peer(f"GPU-{other}", topology, read, nvlink) for other in range(ranks) if other != rank
        ),
        path=way(rank, topology == ONE_SWITCH, redirects),
        iommu="passthrough",
    )
    return msgspec.structs.replace(own, **changed)


def host(ranks: int = 2, **changed: Any) -> dict[int, Facts]:
    return {rank: gpu(rank, ranks=ranks, **changed) for rank in range(ranks)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(host(1), id="one"),
        pytest.param(host(8, nvlink=OK, remotes=(SWITCH,)), id="NVSwitch"),
        pytest.param(
            host(8, nvlink=OK, remotes=(SWITCH,), redirects=True, iommu="translated"),
            id="NVLink does not care for ACS",
        ),
        pytest.param(host(topology=ONE_SWITCH), id="a switch"),
        pytest.param(host(redirects=True), id="ACS of root ports, passed through"),
        pytest.param(host(iommu="translated"), id="IOMMU without ACS"),
        pytest.param(host(redirects=None, iommu="translated"), id="ACS not read"),
        pytest.param(
            host(read=CHIPSET, redirects=True, iommu="translated"), id="across processors: never"
        ),
        pytest.param(
            host(read=CHIPSET, topology=ONE_SWITCH, name="NVIDIA GeForce RTX 4090"), id="consumer"
        ),
        pytest.param(host(read=GPU_CANNOT, topology=ONE_SWITCH), id="these GPUs cannot"),
        pytest.param(host(read=None, topology=None, path=(), iommu="off"), id="nothing known"),
        pytest.param(
            {0: gpu(0, CHIPSET, topology=ONE_SWITCH), 1: gpu(1, CHIPSET, machine="machine1")},
            id="on two machines",
        ),
        pytest.param(
            {rank: gpu(rank, peers=(), uuid=f"GPU-{rank}") for rank in range(2)},
            id="containers that show one GPU each",
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"read": CHIPSET, "topology": ONE_SWITCH}, "one PCIe switch, but the chipset forbids it"),
        (
            {"read": DRIVER_SETTING, "topology": ONE_SWITCH},
            "one PCIe switch, but a driver setting forbids it",
        ),
        ({"read": NOT_SUPPORTED, "remotes": (SWITCH,)}, "NVLink, but the system forbids it"),
        ({"read": GPU_CANNOT, "remotes": ("gpu1",)}, "NVLink, but the driver forbids it"),
    ],
)
def test_gpus_that_should_reach_each_other_are_a_warning(
    changed: dict[str, Any], told: str
) -> None:
    (finding,) = judge(host(**changed))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert told in finding.message
    assert "0 and 1 (node0)" in finding.message
    assert "topo -p2p" in finding.fix


def test_bridges_that_redirect_within_a_switch_are_a_warning() -> None:
    (finding,) = judge(host(topology=ONE_SWITCH, redirects=True))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert "ACS redirects on down0, down1; IOMMU passthrough; ranks 0 and 1" in finding.message
    assert "setpci -s down0" in finding.fix
    assert "iommu=pt" in finding.fix


def test_root_ports_that_redirect_into_translation_are_a_warning() -> None:
    (finding,) = judge(host(redirects=True, iommu="translated"))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert "root0, root1; IOMMU translated" in finding.message


def test_a_cluster_is_one_finding() -> None:
    facts = {
        8 * node + local: gpu(
            local,
            *(OK, NOT_SUPPORTED, PROCESSOR),
            ranks=8,
            redirects=True,
            host=f"node{node}",
            machine=f"machine{node}",
            iommu="translated",
        )
        for node in range(125)
        for local in range(8)
    }
    (finding,) = judge(facts)
    assert len(finding.ranks) == 1000
    assert finding.message.endswith(f"and {125 * 28 - 8} more")


def test_summary_tells_what_was_not_looked_at() -> None:
    assert "needs root" in summarize(host(redirects=None))
    assert summarize(host()) == ""


@pytest.mark.parametrize("virtual", [True, False])
def test_probe(virtual: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    links = (Link(True, SWITCH, 0), Link(True, "", 0), Link(False, "", 0))
    peers = (Peer("GPU-2", 10, 0, 0),)
    own = Gpu("GPU-1", "NVIDIA H200", "0000:17:00.0", mig=False, links=links, peers=peers)
    path = way(1, switch=True, redirects=True)
    monkeypatch.setattr(peer_access_blocked, "gpu_of", {"cuda:1": own}.get)
    monkeypatch.setattr(peer_access_blocked, "path_of", {"0000:17:00.0": path}.get)
    monkeypatch.setattr(peer_access_blocked, "iommu_of", {"0000:17:00.0": "off"}.get)
    monkeypatch.setattr(peer_access_blocked, "is_virtual_machine", lambda: virtual)
    assert probe(context_with(device="cuda:1", machine="machine0")) == Facts(
        host="node0",
        machine="machine0",
        uuid="GPU-1",
        pci="0000:17:00.0",
        name="NVIDIA H200",
        remotes=(SWITCH,),
        peers=peers,
        path=() if virtual else path,
        iommu="off",
    )


@pytest.mark.parametrize(
    ("device", "gpu_or_reason", "reason"),
    [
        ("cpu", "", "this run uses no GPU"),
        ("cuda:0", "NVML: Driver Not Loaded", "Driver Not Loaded"),
        ("cuda:0", Gpu("GPU-1", mig=True), "MIG"),
    ],
)
def test_what_cannot_be_measured_is_skipped(
    device: str, gpu_or_reason: Gpu | str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_access_blocked, "gpu_of", always(gpu_or_reason))
    with pytest.raises(Skip, match=reason):
        probe(context_with(device=device))
