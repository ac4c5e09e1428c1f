"""The scratch folder of a host is nearly full.

Why it matters
    Checkpoints and caches go to the folder that SCRATCH names. When it is full, the first rank that
    writes there raises, hours into the job, and all others wait for it.
What to do
    Remove what old jobs have left there, or let SCRATCH name a folder with more room.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity

# Three checkpoints of our largest model, with its optimizer's state.
LEAST_BYTES = 64 * 2**20


class Facts(msgspec.Struct, frozen=True):
    """The room in one rank's scratch folder."""

    host: str
    folder: str
    free_bytes: int


def probe(ctx: Context) -> Facts:
    """Return the room in this rank's scratch folder."""
    folder = ctx.environ.get("SCRATCH", "")
    if not Path(folder).is_dir() or not folder:
        raise Skip("SCRATCH names no folder")
    return Facts(ctx.host, folder, shutil.disk_usage(folder).free)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for the hosts that have less room than a job needs."""
    full = {rank: own for rank, own in facts.items() if own.free_bytes < LEAST_BYTES}
    if not full:
        return []
    hosts = ", ".join(sorted({own.host for own in full.values()}))
    least = min(full.values(), key=lambda own: own.free_bytes)
    return [
        Finding(
            title="the scratch folder is nearly full",
            message=f"{least.folder} on {least.host}: {least.free_bytes} bytes are free, "
            f"limit {LEAST_BYTES}",
            fix=f"remove what is old there, on {hosts}, or set SCRATCH to another folder",
            ranks=tuple(full),
            severity=Severity.WARNING,
            confidence=Confidence.HIGH,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the least room."""
    return f"{min(own.free_bytes for own in facts.values())} bytes free at least"
