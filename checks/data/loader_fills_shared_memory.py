"""The batches of the loader's workers do not fit into the shared memory in /dev/shm.

Why it matters
    Workers hand batches over in /dev/shm, each several ahead. A container has 64 MB there unless
    told otherwise; when it is full, workers die of a "Bus error", or raise "unable to allocate
    shared memory(shm)", with num_workers=0 everything works, and nothing names the size.
What to do
    docker run --shm-size=16g (or --ipc=host); in Kubernetes mount an emptyDir with medium: Memory
    at /dev/shm; elsewhere mount -o remount,size=16g /dev/shm. Or lower num_workers, prefetch_factor
    or the batch. If the training keeps batches, let it keep copies (tensor.clone()).
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.places import shared_place
from ddpcheck.machine.shared_memory import Space, shared_memory
from ddpcheck.measures.hosts import by_place, host_names, joined, named
from ddpcheck.measures.loader import Loader
from ddpcheck.measures.more_room import SHARED_MEMORY
from ddpcheck.measures.words import listed, size

# The semaphores of the queues between a rank and its workers. Measured on torch 2.13.
LOADER_FILES_COUNT = 8
WORKER_FILES_COUNT = 3
# Torch's words for space, or a file, that it cannot have, and for a worker that was killed for it.
SIGNS = ("shared memory(shm)", "shared memory object", "Bus error")


class Facts(msgspec.Struct, frozen=True):
    """The loader of this rank, and /dev/shm before its workers started: bytes, and files or None.

    ``place`` is common to the ranks that are shown one /dev/shm.
    """

    host: str
    place: str
    size_bytes: int
    free_bytes: int
    free_files: int | None
    loader: Loader


class Observer:
    """Sees what is free before any worker starts, and how large the batches are."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.loader import LoaderWatch

        self._host = ctx.host
        self._space: Space | None = None
        watch = self._watch = LoaderWatch(SIGNS)
        self.on_built, self.on_asked, self.on_fed, self.on_batch, self.on_raise = watch.handlers

    def on_placed(self, _module: object) -> None:
        """Look while no rank has begun: all of them meet in the wrapping, which comes next."""
        self._space = shared_memory()

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no worker needs shared memory."""
        loader = self._watch.seen()
        if loader is None:
            raise Skip(self._watch.absence)
        if self._space is None:
            raise Skip("this system has no /dev/shm")
        return Facts(
            host=self._host,
            place=shared_place(self._host, self._space.device),
            size_bytes=self._space.size_bytes,
            free_bytes=self._space.free_bytes,
            free_files=self._space.free_files,
            loader=loader,
        )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return where workers ran out of shared memory, and where they would with all batches ahead."""
    kinds: dict[Severity, list[dict[int, Facts]]] = {}
    for ranks in by_place(facts):
        if severity := _severity(ranks):
            kinds.setdefault(severity, []).append(ranks)
    return [_finding(short, severity) for severity, short in kinds.items()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how much the batches take where they take most of what there is."""
    worst = min(by_place(facts), key=lambda ranks: _free(ranks) - _need(ranks))
    return f"batches take up to {size(_need(worst))} of {size(_free(worst))} free"


def _severity(ranks: Mapping[int, Facts]) -> Severity | None:
    if any(own.loader.failure for own in ranks.values()):
        return Severity.ERROR
    is_short = _need(ranks) > _free(ranks) or _lacks_files(ranks)
    return Severity.WARNING if is_short else None


def _free(ranks: Mapping[int, Facts]) -> int:
    # A rank that looked later may have seen what another's workers had taken.
    return max(own.free_bytes for own in ranks.values())


def _need(ranks: Mapping[int, Facts]) -> int:
    return sum(own.loader.alive_batches * own.loader.batch_bytes for own in ranks.values())


def _files(ranks: Mapping[int, Facts]) -> int:
    loaders = [own.loader for own in ranks.values()]
    tensors = sum(each.alive_batches * each.batch_tensors for each in loaders)
    return tensors + sum(LOADER_FILES_COUNT + WORKER_FILES_COUNT * e.workers for e in loaders)


def _lacks_files(ranks: Mapping[int, Facts]) -> bool:
    free = [own.free_files for own in ranks.values() if own.free_files is not None]
    return bool(free) and _files(ranks) > max(free)


def _finding(short: list[dict[int, Facts]], severity: Severity) -> Finding:
    everybody = joined(short)
    worst = min(short, key=lambda ranks: _free(ranks) - _need(ranks))
    failures = [own.loader.failure for own in everybody.values() if own.loader.failure]
    sure = severity is Severity.ERROR
    return Finding(
        title="the loader's workers ran out of shared memory"
        if sure
        else "the loader's batches do not fit into shared memory",
        message=f"{listed(host_names(everybody))}: {_told(worst)}"
        + (f"; torch says: {failures[0]}" if failures else ""),
        fix=f"{SHARED_MEMORY}; or lower num_workers, prefetch_factor or the batch",
        ranks=tuple(everybody),
        severity=severity,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
    )


def _told(ranks: Mapping[int, Facts]) -> str:
    first = max(ranks.values(), key=lambda own: own.loader.batch_bytes)
    free = f"{size(_free(ranks))} of {size(first.size_bytes)} of /dev/shm were free"
    if _lacks_files(ranks) or not first.loader.batch_bytes:
        free += f", and {max(own.free_files or 0 for own in ranks.values())} files (nr_inodes)"
    if not first.loader.batch_bytes:
        return f"{free} for {named(ranks)}, and not even the first batch came"
    batch = f"{first.loader.batch_tensors} tensor(s) and {size(first.loader.batch_bytes)}"
    return (
        f"{free} for {named(ranks)}; {first.loader.told()}, each of {batch}: {size(_need(ranks))} "
        f"and {_files(ranks)} files for {len(ranks)} rank(s)"
    )
