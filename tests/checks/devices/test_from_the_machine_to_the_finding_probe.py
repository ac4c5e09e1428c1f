"""From what Linux shows to the finding: the tree is read, the probe measures, the check judges."""

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from answers import always
from contexts import context_with
from pci_trees import CAPTURED, captured, device, write

from ddpcheck.catalogue import check_named
from ddpcheck.check import Facts
from ddpcheck.checks.devices import kernel_log_errors, peer_access_blocked
from ddpcheck.finding import Finding, Severity
from ddpcheck.machine.gpu import Gpu, Peer
from ddpcheck.machine.kernel_log import xids
from ddpcheck.machine.pci import iommu_of, is_virtual_machine, path_of

H200 = msgspec.json.decode((CAPTURED / "h200.json").read_bytes(), type=Gpu)
ADDRESSES = ("0000:03:00.0", "0000:82:00.0")
ACROSS_A_PROCESSOR = 30  # NVML's level
READABLE, NO_NVLINK = 0, 5  # NVML's states
ACS_ON, ACS_OFF = "root_port_acs_on", "root_port_acs_off"


def card(rank: int) -> Gpu:
    """Return the captured GPU as a card without NVLink, on a root port of its own."""
    other = Peer(f"GPU-{1 - rank}", ACROSS_A_PROCESSOR, READABLE, NO_NVLINK)
    return msgspec.structs.replace(
        H200, uuid=f"GPU-{rank}", pci=ADDRESSES[rank], links=(), peers=(other,)
    )


def host(root: Path, ports: str, iommu: str) -> Path:
    """Make a host of two cards on root ports with captured registers."""
    write(root, "proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu sse\n")
    write(root, "proc/cmdline", "quiet")
    for number, address in enumerate(ADDRESSES, 1):
        port = f"sys/devices/pci0000:00/0000:00:{number:02x}.0"
        device(root, port, captured(ports))
        device(root, f"{port}/{address}", b"")
        write(root, f"{port}/{address}/iommu_group/type", iommu)
    return root


def judged(check: str, facts: dict[int, Facts]) -> list[Finding]:
    """Return the findings as a run has them, with the id of the check."""
    return check_named(check).judge(facts)


def ways_between(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    monkeypatch.setattr(peer_access_blocked, "path_of", partial(path_of, root=root))
    monkeypatch.setattr(peer_access_blocked, "iommu_of", partial(iommu_of, root=root))
    virtual = partial(is_virtual_machine, root)
    monkeypatch.setattr(peer_access_blocked, "is_virtual_machine", virtual)
    facts: dict[int, Facts] = {}
    for rank in range(2):
        monkeypatch.setattr(peer_access_blocked, "gpu_of", always(card(rank)))
        facts[rank] = peer_access_blocked.probe(context_with(device=f"cuda:{rank}", rank=rank))
    return judged("devices/peer-access-blocked", facts)


def test_root_ports_that_redirect_into_an_iommu_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finding,) = ways_between(host(tmp_path, ACS_ON, "DMA-FQ\n"), monkeypatch)
    assert (finding.id, finding.severity) == ("devices/peer-access-blocked", Severity.WARNING)
    assert finding.ranks == (0, 1)
    assert "ACS redirects on 0000:00:01.0, 0000:00:02.0; IOMMU translated" in finding.message
    assert "ranks 0 and 1 (node0)" in finding.message
    assert finding.fix.startswith("setpci -s 0000:00:01.0 ECAP_ACS+0x6.w=0000 and iommu=pt")


@pytest.mark.parametrize(
    ("ports", "iommu"),
    [
        pytest.param(ACS_OFF, "DMA-FQ\n", id="ACS is off"),
        pytest.param(ACS_ON, "identity\n", id="the IOMMU passes through"),
    ],
)
def test_root_ports_that_are_in_nobodys_way_are_silent(
    ports: str, iommu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ways_between(host(tmp_path, ports, iommu), monkeypatch) == []


# As the driver writes them: one of hardware, one that a program caused.
XID_79 = "NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus."
XID_31 = "NVRM: Xid (PCI:0000:03:00): 31, pid=79749, name=python, Ch 0000000a, MMU Fault"


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[int]:
    """Yield the writing end of a /dev/kmsg below the folder."""
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev/kmsg")
    writer = os.open(tmp_path / "dev/kmsg", os.O_RDWR)
    yield writer
    os.close(writer)


def logged(kernel: int, root: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """Return what two ranks on this host make of a line that the kernel wrote a minute ago."""
    at_us = int((time.clock_gettime(time.CLOCK_MONOTONIC) - 60) * 1e6)
    text = f"4,1200,{at_us},-;{line}\n"
    facts: dict[int, Facts] = {}
    for rank in range(2):
        os.write(kernel, text.encode())
        monkeypatch.setattr(kernel_log_errors, "xids", partial(xids, root))
        monkeypatch.setattr(kernel_log_errors, "gpu_of", always(card(rank)))
        facts[rank] = kernel_log_errors.probe(context_with(device=f"cuda:{rank}", rank=rank))
    return judged("devices/kernel-log-errors", facts)


def test_an_xid_of_hardware_is_told_to_the_rank_of_that_gpu(
    kernel: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finding,) = logged(kernel, tmp_path, XID_79, monkeypatch)
    assert (finding.id, finding.severity) == ("devices/kernel-log-errors", Severity.WARNING)
    assert finding.ranks == (0,)
    assert "node0: GPU 0000:03:00.0 (rank 0): Xid 79, fell off the bus, 1 times" in finding.message
    assert finding.fix.startswith("dmesg | grep Xid")


def test_an_xid_that_a_program_caused_is_silent(
    kernel: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert logged(kernel, tmp_path, XID_31, monkeypatch) == []
