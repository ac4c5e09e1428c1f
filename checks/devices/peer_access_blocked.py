"""GPUs of one host cannot reach each other directly, or only through the processor.

Why it matters
    NCCL copies between GPUs directly where the driver says it may. Where that is switched off
    the copies go through memory, several times slower. Where PCI Express access control (ACS)
    sends them up to the processor, and its IOMMU translates them, they crawl, or the first
    collective hangs at 100 % GPU right after "Init COMPLETE" while NCCL_P2P_DISABLE=1 helps.
What to do
    Bare metal: boot with iommu=pt (or switch VT-d / AMD-Vi off in the BIOS) and clear ACS on the
    bridges named, after each boot: setpci -s ADDRESS ECAP_ACS+0x6.w=0000. Virtual machines
    need ACS on their host: switch ATS on instead. Run again; NCCL_P2P_DISABLE=1 until then.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.gpu import SWITCH, Peer, gpu_of
from ddpcheck.machine.pci import Port, detour_between, iommu_of, is_virtual_machine, path_of
from ddpcheck.measures.words import listed

# Source: NVML API Reference, nvmlGpuTopologyLevel_t and nvmlGpuP2PStatus_t.
ONE_SWITCH_LEVEL = 20  # level: only PCIe switches between the two
P2P_OK = 0  # state
P2P_STATES = {1: "the chipset", 3: "the topology", 4: "a driver setting", 5: "the system"}
# Not meant for it: the driver says no on every machine, with changing reasons.
CONSUMER_NAMES = ("GeForce", "TITAN")
Pair = tuple[int, int]
ALLOW = "see: nvidia-smi topo -p2p r and -p2p n; check the driver's options and fabric manager"
CLEAR = "setpci -s {} ECAP_ACS+0x6.w=0000 and iommu=pt on the kernel's command line, then run again"


class Facts(msgspec.Struct, frozen=True):
    """The rank's GPU, where its NVLinks lead, how it reaches others, and its way up."""

    host: str
    machine: str
    uuid: str
    pci: str
    name: str
    remotes: tuple[str, ...]
    peers: tuple[Peer, ...]
    path: tuple[Port, ...]
    iommu: str


def probe(ctx: Context) -> Facts:
    """Return the ways from this rank's GPU to the others of its machine."""
    ctx.require_gpu()
    gpu = gpu_of(ctx.device)
    if isinstance(gpu, str):
        raise Skip(gpu)
    if gpu.mig:
        raise Skip("slices of a GPU (MIG) do not reach each other")
    return Facts(
        host=ctx.host,
        machine=ctx.machine or ctx.host,
        uuid=gpu.uuid,
        pci=gpu.pci,
        name=gpu.name,
        remotes=tuple(sorted({link.remote for link in gpu.links if link.remote})),
        peers=gpu.peers,
        # A virtual machine's bridges are made up, and its host needs ACS.
        path=() if is_virtual_machine() else path_of(gpu.pci),
        iommu=iommu_of(gpu.pci),
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for the pairs without a direct way, and one for those with a detour."""
    machines: dict[str, list[int]] = {}
    for rank, own in sorted(facts.items()):
        machines.setdefault(own.machine, []).append(rank)
    pairs = [pair for ranks in machines.values() for pair in combinations(ranks, 2)]
    blocked = {pair: why for pair in pairs if (why := _blocked(facts, pair))}
    detours = {pair: bridges for pair in pairs if (bridges := _detour(facts, pair))}
    why = ", ".join(sorted(set(blocked.values())))
    return [
        *_finding(facts, list(blocked), "GPUs cannot reach each other directly", why, ALLOW),
        *_finding(facts, list(detours), *_told(facts, detours)),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return whether the bridges were looked at: it takes root to read their registers."""
    unread = any(port.redirects is None for own in facts.values() for port in own.path[1:])
    return "ACS of the bridges was not read: that needs root" if unread else ""


def _peer(facts: Mapping[int, Facts], pair: Pair) -> Peer | None:
    other = facts[pair[1]].uuid
    return next((peer for peer in facts[pair[0]].peers if peer.uuid == other), None)


def _blocked(facts: Mapping[int, Facts], pair: Pair) -> str:
    """Return what forbids the direct way where there should be one, or ''."""
    peer, own = _peer(facts, pair), facts[pair[0]]
    if peer is None or peer.read is None or P2P_OK in (peer.read, peer.nvlink):
        return ""
    if _linked(own, facts[pair[1]]):
        return f"NVLink, but {P2P_STATES.get(peer.read, 'the driver')} forbids it"
    near = peer.topology is not None and peer.topology <= ONE_SWITCH_LEVEL
    meant = peer.read in P2P_STATES and not any(each in own.name for each in CONSUMER_NAMES)
    return f"one PCIe switch, but {P2P_STATES[peer.read]} forbids it" if near and meant else ""


def _linked(own: Facts, other: Facts) -> bool:
    return other.pci in own.remotes or SWITCH in set(own.remotes) & set(other.remotes)


def _detour(facts: Mapping[int, Facts], pair: Pair) -> tuple[str, ...]:
    """Return the bridges that send the pair's traffic up to the processor, where it matters."""
    own, other, peer = facts[pair[0]], facts[pair[1]], _peer(facts, pair)
    if peer is None or peer.read != P2P_OK or peer.nvlink == P2P_OK:
        return ()
    return detour_between(own.path, other.path, own.iommu == "translated")


def _told(
    facts: Mapping[int, Facts], detours: Mapping[Pair, tuple[str, ...]]
) -> tuple[str, str, str]:
    """Return title, cause and fix."""
    bridges = sorted({bridge for each in detours.values() for bridge in each})
    iommu = ", ".join(sorted({facts[first].iommu for first, _ in detours}))
    why = f"ACS redirects on {listed(bridges)}; IOMMU {iommu}"
    return "copies between GPUs go through the processor", why, CLEAR.format("".join(bridges[:1]))


def _finding(
    facts: Mapping[int, Facts], pairs: list[Pair], title: str, why: str, fix: str
) -> Iterator[Finding]:
    told = listed((f"{a} and {b} ({facts[a].host})" for a, b in pairs), "; ")
    if pairs:
        yield Finding(
            title=title,
            message=f"{why}; ranks {told}",
            fix=fix,
            ranks=tuple(sorted({rank for pair in pairs for rank in pair})),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )
