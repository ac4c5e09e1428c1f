"""Several ranks write one file at the same step.

Why it matters
    Ranks that save to one path write over each other. The file is torn now and then, and says so
    only when it is loaded, which is when it is needed. Typical causes are a save that no rank is
    kept from, and a guard by local rank where all hosts share a file system.

What to do
    Save on one rank, as in if dist.get_rank() == 0, or give each rank a path of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.words import counted, spans

KEPT_COUNT = 64


class Write(msgspec.Struct, frozen=True):
    """One file that was written: in which step, and what the file system knows it by."""

    path: str
    inode: int
    step: int
    location: Location | None = None


class Facts(msgspec.Struct, frozen=True):
    """What a rank wrote; ``machine`` is the same text for ranks on one machine."""

    machine: str
    writes: tuple[Write, ...]


class Observer:
    """Notes each torch.save to a path, or to a file that was opened."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._step = 0
        self._writes: list[Write] = []

    def on_step(self, step: int) -> None:
        """Count the steps."""
        self._step = step + 1

    def on_saved(self, path: str, _value: object, location: Location | None) -> None:
        """Note the file, as it is on disk: devices such as /dev/null are nobody's."""
        file = Path(path)
        if path and len(self._writes) < KEPT_COUNT and file.is_file():
            write = Write(str(file.resolve()), file.stat().st_ino, self._step, location)
            # A distributed checkpoint saves its tensors into one file, each by itself.
            if write not in self._writes:
                self._writes.append(write)

    def facts(self) -> Facts:
        """Return what was written; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return Facts(self._ctx.machine, tuple(self._writes))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line at which several ranks wrote a file in one step.

    On several machines a path and an inode that agree are one file of a shared file system, most
    likely: local disks that were set up alike may have both in common.
    """
    writers: dict[tuple[str, int, int], dict[int, Write]] = {}
    for rank, own in sorted(facts.items()):
        for write in own.writes:
            writers.setdefault((write.path, write.inode, write.step), {}).setdefault(rank, write)
    several: dict[tuple[str, tuple[int, ...]], list[dict[int, Write]]] = {}
    for (path, _, _), ranks in writers.items():
        if len(ranks) > 1:
            line = str(ranks[min(ranks)].location or path)
            several.setdefault((line, tuple(ranks)), []).append(ranks)
    return [_finding(files, facts) for files in several.values()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many files were written."""
    count = len({write.path for own in facts.values() for write in own.writes})
    return f"{count} files written by torch.save"


def _finding(files: Sequence[Mapping[int, Write]], facts: Mapping[int, Facts]) -> Finding:
    ranks = files[0]
    others = len({each[min(each)].path for each in files}) - 1
    machines = {facts[rank].machine for rank in ranks}
    write = ranks[min(ranks)]
    one = len(machines) == 1
    return Finding(
        title=f"{len(ranks)} ranks write the same file",
        message=f"rank {spans(sorted(ranks))} wrote {write.path} after step {write.step}"
        + (f", and {counted(others, 'other file')} likewise" if others else "")
        + ("" if one else f", on {len(machines)} machines, under one inode"),
        fix="save on one rank only (if dist.get_rank() == 0:), or to a path for each rank",
        ranks=tuple(sorted(ranks)),
        severity=Severity.ERROR if one else Severity.WARNING,
        confidence=Confidence.HIGH if one else Confidence.MEDIUM,
        location=write.location,
    )
