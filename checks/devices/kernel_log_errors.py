"""The kernel's log holds hardware errors (Xid) of a GPU.

Why it matters
    When a GPU falls off the bus, its firmware stops or an NVLink fails, the driver writes an
    Xid line into the kernel's log, and the job only sees a hang or "unspecified launch
    failure" on one rank. The same GPU often does it again, hours into the next job.
    Errors that programs cause (13, 31, 43, 45 and such) are left out.
What to do
    Look at the lines (dmesg | grep Xid) and at NVIDIA's Xid catalog. With no process on it,
    reset the GPU (nvidia-smi --gpu-reset -i ID) or reboot the host, run dcgmi diag -r 3, and
    have a GPU replaced that does it again.
"""

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.gpu import gpu_of
from ddpcheck.machine.kernel_log import FATAL, Xid, xids
from ddpcheck.machine.places import shared_place
from ddpcheck.measures.hosts import by_place
from ddpcheck.measures.words import listed

# Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/
# xid-errors/analyzing-xid-catalog.html): those whose action is more than to restart a program.
HARDWARE = {
    46: "the GPU stopped processing",
    48: "uncorrectable memory error",
    54: "auxiliary power is not connected",
    61: "microcontroller breakpoint",
    62: "microcontroller halt",
    64: "a row could not be remapped",
    74: "NVLink error",
    79: "fell off the bus",
    95: "uncontained memory error",
    109: "context switch timeout",
    110: "security fault",
    119: "GSP firmware timeout",
    120: "GSP firmware error",
    136: "link training failed",
    140: "unrecovered memory error",
    143: "initialization failed",
    156: "a part was retired, a reset is due",
    158: "fatal timeout",
    167: "PCI Express timeout",
    169: "microcontroller halt",
}
# These are as bad only where the driver calls them fatal; most are not.
NVLINK = dict.fromkeys(range(144, 151), "NVLink error")
# The driver has dealt with these: worth knowing, no more.
HANDLED = {
    63: "a row was marked for remapping",
    92: "many corrected memory errors",
    94: "contained memory error",
    121: "corrected C2C error",
    157: "a part could not be retired",
}
TOLD = {**HARDWARE, **NVLINK, **HANDLED}
# Our choice: the log keeps what was repaired since, and a reset of a GPU leaves no line in it
# (NVSentinel, "GPU reset" design: no such syslog entry).
RECENT_S = 7 * 24 * 3600.0
HOUR_S = 3600.0
FIX = "dmesg | grep Xid; with no process on it: nvidia-smi --gpu-reset -i ID, or reboot the host"


class Facts(msgspec.Struct, frozen=True):
    """The rank's GPU, and all complaints about GPUs in its kernel's log; ages in seconds.

    ``place`` is common to the ranks of one kernel.
    """

    host: str
    place: str
    pci: str
    xids: tuple[Xid, ...]


def probe(ctx: Context) -> Facts:
    """Return what the kernel's log tells of this host's GPUs."""
    ctx.require_gpu()
    gpu = gpu_of(ctx.device)
    if isinstance(gpu, str):
        raise Skip(gpu)
    found = xids()
    if isinstance(found, str):
        raise Skip(found)
    return Facts(ctx.host, shared_place(ctx.host), gpu.pci, found)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding a host with errors of hardware; what is old or handled is told too."""
    return [found for ranks in by_place(facts) for found in _of_host(ranks)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many kernel logs were read."""
    hosts = {own.place: own for own in facts.values()}
    kinds = {each.code for own in hosts.values() for each in own.xids}
    told = f"Xid {', '.join(map(str, sorted(kinds)))}" if kinds else "no Xid"
    return f"{told} in the kernel logs of {len(hosts)} host{'s' * (len(hosts) != 1)}"


def _of_host(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    owners = {own.pci: rank for rank, own in facts.items()}
    first = facts[min(facts)]
    kinds: dict[Severity, list[Xid]] = {}
    for each in first.xids:
        if each.code in TOLD:
            kinds.setdefault(_severity(each, owners), []).append(each)
    for severity, found in kinds.items():
        guilty = {owners[each.pci] for each in found if each.pci in owners}
        yield Finding(
            title="hardware errors of a GPU in the kernel's log",
            message=f"{first.host}: {_told(found, owners)}",
            fix=FIX,
            ranks=tuple(sorted(guilty or set(facts))),
            severity=severity,
            # What was wrong then may be repaired by now.
            confidence=Confidence.MEDIUM,
        )


def _severity(each: Xid, owners: Mapping[str, int]) -> Severity:
    is_serious = each.code in HARDWARE or (each.code in NVLINK and FATAL in each.text)
    is_certain = each.age_s <= RECENT_S and each.pci in owners
    return Severity.WARNING if is_serious and is_certain else Severity.INFO


def _told(found: list[Xid], owners: Mapping[str, int]) -> str:
    told = (
        f"GPU {each.pci} ({_owner(each, owners)}): Xid {each.code}, "
        f"{TOLD[each.code]}, {each.count} times, last {_ago(each.age_s)} ago"
        for each in sorted(found, key=lambda each: each.age_s)
    )
    return listed(told, "; ")


def _owner(each: Xid, owners: Mapping[str, int]) -> str:
    return f"rank {owners[each.pci]}" if each.pci in owners else "not used by this run"


def _ago(age_s: float) -> str:
    return f"{age_s:.0f} s" if age_s < HOUR_S else f"{age_s / HOUR_S:.0f} h"
