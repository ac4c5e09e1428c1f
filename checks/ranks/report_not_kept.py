"""A rank could not write its part of the report.

Why it matters
    The disk is full, the directory is gone, or may not be written to. A training on this machine
    would lose its checkpoints in the same way.

What to do
    Free space, or choose a place that every rank can write to with --report-dir.
"""

from __future__ import annotations

from collections.abc import Mapping

from ddpcheck.finding import Finding
from ddpcheck.measures.testimony import Testimony

Facts = Testimony


def judge(facts: Mapping[int, Testimony]) -> list[Finding]:
    """Return a finding for all ranks whose file is not whole."""
    unkept = {rank: each.unkept for rank, each in sorted(facts.items()) if each.unkept}
    if not unkept:
        return []
    return [
        Finding(
            title=f"{len(unkept)} of {len(facts)} ranks could not write to the report directory",
            message="; ".join(f"rank {rank}: {error}" for rank, error in unkept.items()),
            fix="free space there, or choose another place with --report-dir",
            ranks=tuple(unkept),
            evidence={"errors": {str(rank): error for rank, error in unkept.items()}},
        )
    ]


def summarize(facts: Mapping[int, Testimony]) -> str:
    """Return what did not happen, if it did not."""
    return "" if judge(facts) else "every rank wrote its part"
