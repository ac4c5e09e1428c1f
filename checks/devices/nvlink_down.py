"""Some NVLinks of a GPU are down, or had to be trained again.

Why it matters
    NCCL sends along the links that are up, as fast as the slowest GPU allows: one GPU with 12
    of 18 links takes a third of the bandwidth from all GPUs of its host, and with none the
    traffic goes over PCI Express, ten times slower. Nothing is reported but a slow step. A
    link that keeps failing ends in Xid 74 and a hang.
What to do
    Compare nvidia-smi nvlink -s and nvidia-smi nvlink -e of all GPUs; look for NVLink and SXid
    lines in dmesg, and at systemctl status nvidia-fabricmanager. Reset all GPUs of the host
    together, or reboot it; if links stay down, have the board looked at.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.gpu import SWITCH, Link, gpu_of
from ddpcheck.measures.words import listed, spans

# Source: DCGM counts one recovery error as a failure of the link (DCGM_LIMIT_MAX_NVLINK_ERROR
# in dcgm_gpu_hardware_limits.h); replays and single CRC errors are repaired at no cost.
MAX_RECOVERY_COUNT = 0
RESET = "nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager; reset the host's GPUs"
BRIDGE = "if it should have a bridge like its neighbours, check it: nvidia-smi nvlink -s"
ERRORS = "nvidia-smi nvlink -e; dmesg | grep -E 'Xid|NVLink'; reset the host's GPUs and compare"


class Facts(msgspec.Struct, frozen=True):
    """The NVLinks of this rank's GPU: those that are up, all numbers, and recoveries by number."""

    host: str
    pci: str
    name: str
    up: int
    down: tuple[int, ...]
    switched: bool
    recoveries: dict[str, int]
    machine: str = ""


def probe(ctx: Context) -> Facts:
    """Return the state of this rank's NVLinks."""
    ctx.require_gpu()
    gpu = gpu_of(ctx.device)
    if isinstance(gpu, str):
        raise Skip(gpu)
    if gpu.mig:
        raise Skip("a GPU in MIG mode uses no NVLink")
    if not gpu.links:
        raise Skip("the GPU has no NVLink")
    return Facts(
        host=ctx.host,
        pci=gpu.pci,
        name=gpu.name,
        up=sum(link.active for link in gpu.links),
        down=tuple(number for number, link in enumerate(gpu.links) if not link.active),
        switched=any(link.remote == SWITCH for link in gpu.links),
        recoveries=_recoveries(gpu.links),
        machine=ctx.machine,
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for GPUs with fewer links than they should, and one for failing links."""
    lost: dict[int, str] = {}
    bare: dict[int, str] = {}
    for rank, most, switched in _behind(facts):
        own = facts[rank]
        told = f"{own.up} of {most} links up; down: {spans(own.down) or 'unknown'}"
        # Cards may be bridged in pairs, with one left over; on a switch all links are used.
        (lost if own.up or switched else bare)[rank] = told
    failing = {r: _failing(own) for r, own in sorted(facts.items()) if _failing(own)}
    return [
        *_finding(facts, lost, Severity.WARNING, "NVLinks of a GPU are down", RESET),
        *_finding(facts, bare, Severity.INFO, "a GPU has no NVLink up, others have", BRIDGE),
        *_finding(facts, failing, Severity.WARNING, "NVLinks of a GPU had errors", ERRORS),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many links a GPU has up."""
    up = sorted({own.up for own in facts.values()})
    return f"{' or '.join(map(str, up))} NVLinks up on each GPU"


def _recoveries(links: tuple[Link, ...]) -> dict[str, int]:
    counts = {str(number): link.recoveries or 0 for number, link in enumerate(links)}
    return {number: count for number, count in counts.items() if count > MAX_RECOVERY_COUNT}


def _behind(facts: Mapping[int, Facts]) -> Iterator[tuple[int, int, bool]]:
    """Yield who has fewer links up than it should, how many that is, and if switches join them."""
    kinds: dict[str, dict[tuple[str, str], list[int]]] = {}
    for rank, own in sorted(facts.items()):
        place = own.host, own.machine
        kinds.setdefault(own.name, {}).setdefault(place, []).append(rank)
    for hosts in kinds.values():
        everywhere = [facts[rank] for ranks in hosts.values() for rank in ranks]
        switched = any(own.switched for own in everywhere)
        due = _due(everywhere, len(hosts))
        for ranks in hosts.values():
            # Of a host of several GPUs, a virtual machine may have one, without its links.
            is_part = len(ranks) == 1 and not facts[ranks[0]].up
            among_all = switched and not is_part
            most = due if among_all else max(facts[r].up for r in ranks)
            yield from ((rank, most, among_all) for rank in ranks if facts[rank].up < most)


def _due(kin: Sequence[Facts], hosts_count: int) -> int:
    """Return how many links each of these GPUs should have up, which switches join.

    All that the maker wired lead to switches. A switch that is down takes links from all GPUs of
    its host, and they stay alike: other hosts show it, or else the links that the driver knows and
    does not use. Where several hosts agree, no more of them are meant to be used.
    """
    return max(own.up + (len(own.down) if hosts_count == 1 else 0) for own in kin)


def _failing(own: Facts) -> str:
    if not own.recoveries:
        return ""
    worst = Counter(own.recoveries).most_common()
    told = (f"link {number} {count} times" for number, count in worst)
    return f"trained again since the driver was loaded: {listed(told)}"


def _finding(
    facts: Mapping[int, Facts], told: Mapping[int, str], severity: Severity, title: str, fix: str
) -> Iterator[Finding]:
    gpus = (f"rank {r} ({facts[r].host}, GPU {facts[r].pci}): {words}" for r, words in told.items())
    if told:
        yield Finding(
            title=title,
            message=listed(gpus, "; "),
            fix=fix,
            ranks=tuple(told),
            severity=severity,
            confidence=Confidence.MEDIUM,
        )
