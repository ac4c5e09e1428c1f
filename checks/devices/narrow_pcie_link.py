"""The PCI Express link of a GPU uses fewer lanes than it could.

Why it matters
    A card that is not seated well, a worn riser or a broken lane makes the link come up with
    8, 4 or one lane instead of 16. Copies from the host, and traffic to GPUs and network
    cards without NVLink, then take two to sixteen times as long, on this rank only, and all
    the others wait. A low link speed proves nothing: an idle GPU saves power that way.
What to do
    Reseat the card or its riser, look for "downgraded" in: lspci -vv -s ADDRESS, and check
    the slot's setting (bifurcation) in the BIOS. In a cloud, ask for another host.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.gpu import gpu_of
from ddpcheck.machine.pci import Port, is_virtual_machine, path_of
from ddpcheck.measures.words import listed

LAPTOP = "Laptop"  # these are wired with 8 lanes, whatever both ends could do
RESEAT = "reseat the card or riser, and look at: lspci -vv -s ADDRESS | grep LnkSta"
MOVE = "if that is not meant, move the card to a wider slot, or change bifurcation in the BIOS"


class Facts(msgspec.Struct, frozen=True):
    """Lanes of this rank's GPU, now and possible, by the driver; and its path by the kernel."""

    host: str
    pci: str
    name: str
    width: int | None
    max_width: int | None
    path: tuple[Port, ...]
    virtual: bool


def probe(ctx: Context) -> Facts:
    """Return the link widths from this rank's GPU to the processor."""
    ctx.require_gpu()
    gpu = gpu_of(ctx.device)
    if isinstance(gpu, str):
        raise Skip(gpu)
    path, virtual = path_of(gpu.pci), is_virtual_machine()
    if gpu.pcie_width is None and (virtual or not any(port.width for port in path)):
        raise Skip("neither the driver nor the kernel tells the width of the GPU's link")
    return Facts(ctx.host, gpu.pci, gpu.name, gpu.pcie_width, gpu.pcie_max_width, path, virtual)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for links that lost lanes, and one for slots narrower than others."""
    widths: dict[str, set[int]] = {}
    for own in facts.values():
        widths.setdefault(own.name, set()).add(_width(own) or 0)
    lost = {rank: told for rank, own in sorted(facts.items()) if (told := _lost(own))}
    usual = {r: told for r, told in lost.items() if _is_usual(facts[r], widths[facts[r].name])}
    sure = {rank: told for rank, told in lost.items() if rank not in usual}
    slots = {
        rank: told
        for rank, own in sorted(facts.items())
        if rank not in lost and (told := _narrow_slot(own, widths[own.name]))
    }
    title = "a GPU's link has lost lanes"
    return [
        *_finding(facts, sure, Severity.WARNING, title, RESEAT),
        *_finding(facts, usual, Severity.INFO, title, RESEAT),
        *_finding(facts, slots, Severity.INFO, "a GPU's slot is narrower than others", MOVE),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the widths that were seen."""
    widths = {width for own in facts.values() if (width := _width(own))}
    return f"links of {', '.join(f'x{width}' for width in sorted(widths))}" if widths else ""


def _width(own: Facts) -> int | None:
    return own.width or (own.path[0].width if own.path and not own.virtual else None)


def _lost(own: Facts) -> str:
    """Return which link is narrower than both of its ends allow, or ''."""
    # Source: NVML API Reference, nvmlDeviceGetMaxPcieLinkWidth: what device and system allow.
    if own.width and own.max_width and own.width < own.max_width:
        return f"x{own.width} of x{own.max_width}"
    # A virtual machine's bridges are made up. Of real ones, each two share a link.
    links = [] if own.virtual else list(pairwise(own.path))[::2]
    for lower, upper in links:
        possible = min(lower.max_width or 0, upper.max_width or 0)
        if lower.width and lower.width < possible:
            return f"x{lower.width} of x{possible} between {lower.address} and {upper.address}"
    return ""


def _is_usual(own: Facts, widths: set[int]) -> bool:
    """Return whether nothing points to a fault: how it is wired, or how it is virtualized."""
    return LAPTOP in own.name or (own.virtual and len(widths) == 1)


def _narrow_slot(own: Facts, widths: set[int]) -> str:
    width = _width(own)
    return f"x{width}, others have x{max(widths)}" if width and width < max(widths) else ""


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
            confidence=Confidence.HIGH if severity is Severity.WARNING else Confidence.LOW,
        )
