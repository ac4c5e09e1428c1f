"""The limit on open files is too low for this job.

Why it matters
    Every socket to another rank is an open file, and so is every tensor that a loader worker has
    handed over. At the limit the job ends with "Too many open files", or with "received 0 items of
    ancdata", because the kernel drops what a process has no room for; often only at validation.
What to do
    ulimit -n 65536 in the script that starts the ranks (docker --ulimit nofile=65536, systemd's
    LimitNOFILE=), or torch.multiprocessing.set_sharing_strategy("file_system").
"""

from collections.abc import Mapping
from importlib import import_module

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.limits import OPEN_FILES, limit, open_file_count
from ddpcheck.measures.hosts import host_names
from ddpcheck.measures.more_room import BY_NAME, open_files
from ddpcheck.measures.words import listed

# gloo keeps one socket to each other rank in each group (gloo, transport/tcp/pair.h); a job has
# its own group, one for checkpoints or barriers, and a connection of each rank to a store.
PEER_COUNT = 3
# Eight workers with two batches each of four tensors, each a file while it lives (prefetch_factor
# and sharing strategies: pytorch.org/docs, "torch.utils.data" and "Multiprocessing package"), and
# four pipes and sockets a worker.
LOADER_COUNT = 8 * 2 * 4 + 8 * 4
BY_FILES = "file_descriptor"


class Facts(msgspec.Struct, frozen=True):
    """The limits (None is no limit), the files open now, and how torch hands over tensors.

    ``loader_is_known`` where the target is the user's: what its workers take is measured later, by
    data/loader-exhausts-open-files.
    """

    host: str
    soft: int | None
    hard: int | None
    open_count: int
    sharing: str
    loader_is_known: bool

    @property
    def expects_loader(self) -> bool:
        """Return whether what nobody has told yet counts: workers that hand over open files."""
        return self.sharing == BY_FILES and not self.loader_is_known


def probe(ctx: Context) -> Facts:
    """Return this process's limit on open files, and how many it has open."""
    own = limit(OPEN_FILES)
    opened = open_file_count()
    if not opened:
        raise Skip("this system does not tell which files a process has open")
    sharing: str = import_module("torch.multiprocessing").get_sharing_strategy()
    return Facts(ctx.host, own.soft, own.hard, opened, sharing, bool(ctx.script))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the ranks whose limit is below what a job of this size is likely to open."""
    short = {
        rank: own
        for rank, own in sorted(facts.items())
        if own.soft is not None and own.soft < _need(own, len(facts))
    }
    if not short:
        return []
    rank, worst = min(short.items(), key=lambda pair: (pair[1].soft or 0) - pair[1].open_count)
    need = _need(worst, len(facts))
    return [
        Finding(
            title="the limit on open files is low",
            message=f"rank {rank} on {worst.host} may open {worst.soft} files and has "
            f"{worst.open_count} open; with {len(facts)} ranks"
            f"{' and 8 loader workers' if worst.expects_loader else ''} it will want about "
            f"{need} ({len(short)} rank(s) on {listed(host_names(short))})",
            fix=_fix(worst, need),
            ranks=tuple(short),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the most files a rank has open, and the lowest limit."""
    limits = [own.soft for own in facts.values() if own.soft is not None]
    most = max(own.open_count for own in facts.values())
    return f"{most} files open at most, of {min(limits) if limits else 'any number'}"


def _need(own: Facts, world_size: int) -> int:
    loader = LOADER_COUNT if own.expects_loader else 0
    return own.open_count + PEER_COUNT * (world_size - 1) + loader


def _fix(own: Facts, need: int) -> str:
    by_name = f", or call {BY_NAME}" if own.sharing == BY_FILES else ""
    return f"{open_files(need, own.hard)}{by_name}"
