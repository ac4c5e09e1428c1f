"""The batches of the loader's workers need more open files than a rank may have.

Why it matters
    Each tensor that a worker hands over is an open file for as long as it lives. A training that
    keeps them, say in a list of labels or predictions, ends with "Too many open files", or with
    "received 0 items of ancdata", because the kernel drops what a process has no room for; often
    only at validation, or in the first longer epoch.
What to do
    Keep copies (tensor.clone(), or numbers by .item() or .tolist()), or raise the limit: ulimit -n
    65536 in the script that starts the ranks (docker --ulimit nofile=65536, systemd's
    LimitNOFILE=). torch.multiprocessing.set_sharing_strategy("file_system") needs no open files.
"""

from collections.abc import Mapping
from importlib import import_module

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.limits import OPEN_FILES, limit, open_file_count
from ddpcheck.measures.hosts import host_names
from ddpcheck.measures.loader import Loader
from ddpcheck.measures.more_room import BY_NAME, open_files
from ddpcheck.measures.words import listed

BY_FILES = "file_descriptor"
# What Python and torch say when there is no room for another file.
SIGNS = ("Too many open files", "ancdata")


class Facts(msgspec.Struct, frozen=True):
    """The rank's limits (None is no limit), the most files that it had open, and its loader."""

    host: str
    soft: int | None
    hard: int | None
    open_count: int
    loader: Loader

    @property
    def need(self) -> int:
        """Return how many files are open when as many batches live as can."""
        return self.open_count + self.loader.alive_batches * self.loader.batch_tensors


class Observer:
    """Counts the open files as batches arrive, and the tensors that are files among them."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.loader import LoaderWatch

        self._host = ctx.host
        self._open_count = 0
        watch = self._watch = LoaderWatch(SIGNS)
        self.on_built, self.on_asked, self.on_fed, _, self.on_raise = watch.handlers

    def on_batch(self, step: int, batch: object) -> None:
        """Count: the workers' pipes and the sockets to the other ranks are open by now."""
        self._watch.on_batch(step, batch)
        self._open_count = max(self._open_count, open_file_count())

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no tensor is handed over as an open file."""
        loader = self._watch.seen()
        if loader is None:
            raise Skip(self._watch.absence)
        by_files = import_module("torch.multiprocessing").get_sharing_strategy() == BY_FILES
        if not (by_files or loader.failure):
            raise Skip("workers hand tensors over by name, not as open files")
        own = limit(OPEN_FILES)
        opened = self._open_count or open_file_count()
        return Facts(self._host, own.soft, own.hard, opened, loader)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the ranks that ran out of open files, and those that would within an epoch."""
    failed = {rank: own for rank, own in sorted(facts.items()) if own.loader.failure}
    short = {
        rank: own
        for rank, own in sorted(facts.items())
        if rank not in failed and own.soft is not None and own.need > own.soft
    }
    kinds = ((Severity.ERROR, failed), (Severity.WARNING, short))
    return [_finding(ranks, severity) for severity, ranks in kinds if ranks]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the most files that a rank will have open, and the lowest limit."""
    limits = [own.soft for own in facts.values() if own.soft is not None]
    most = max(own.need for own in facts.values())
    return f"{most} files open at most, of {min(limits) if limits else 'any number'}"


def _finding(ranks: Mapping[int, Facts], severity: Severity) -> Finding:
    rank, worst = max(ranks.items(), key=lambda pair: pair[1].need - (pair[1].soft or 0))
    sure = severity is Severity.ERROR
    failure = f"; torch says: {worst.loader.failure}" if sure else ""
    return Finding(
        title="the training ran out of open files"
        if sure
        else "the loader's batches need more open files than there may be",
        message=f"rank {rank} on {worst.host} may open {_limit(worst)} files and had "
        f"{worst.open_count} open; {worst.loader.told()}, each of {worst.loader.batch_tensors} "
        f"tensor(s): {worst.need} files ({len(ranks)} rank(s) on {listed(host_names(ranks))})"
        f"{failure}",
        fix=_fix(worst),
        ranks=tuple(ranks),
        severity=severity,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
    )


def _limit(own: Facts) -> str:
    return "any number of" if own.soft is None else str(own.soft)


def _fix(own: Facts) -> str:
    keep = "keep copies of what you keep (tensor.clone(), .tolist()), or "
    return f"{keep if own.loader.keeps_all else ''}{open_files(own.need, own.hard)}, or {BY_NAME}"
