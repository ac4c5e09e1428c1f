"""What a check is: the protocol that every module in the catalogue satisfies.

A check is a module, not a class to inherit from. It has

* a docstring: the first line states the fault; the sections "Why it matters" and
  "What to do" are its manual;
* ``Facts``, a frozen ``msgspec.Struct``: what one rank measured;
* ``probe(ctx) -> Facts``, or a class ``Observer`` whose ``on_<event>`` methods are
  called while a training script or the rehearsal runs, and whose ``facts()``
  returns what it saw; neither, when ``Facts`` is ``Testimony``: what the engine knows of
  each rank at the end;
  One whose class says ``is_kept = True`` is asked for its facts whenever a DataLoader came to
  its end, so that they outlive a process which is aborted in its next collective: asking
  changes nothing, and they are small;
* ``judge(facts) -> list[Finding]``, pure: the facts of every rank in, findings out;
* optionally ``summarize(facts) -> str``: one line for the report, and
  ``recommend(facts) -> dict[str, Recommendation]``: settings for ``train``.

Numbers of its own, ``UPPER_CASE_UNIT = ...``, may be others by a settings file: see ``thresholds.py``.

This module imports no torch, so that judging and listing need none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from ddpcheck.finding import Finding, Recommendation, Severity
from ddpcheck.measures.mesh import Axis
from ddpcheck.measures.rank_process import RankProcess
from ddpcheck.measures.testimony import Testimony

if TYPE_CHECKING:
    from datetime import timedelta

    from ddpcheck.target.live import LiveTarget


class Skip(Exception):
    """Raised by a probe or an observer that has nothing to measure here; says why."""


class Stage(StrEnum):
    """The stages of a run, in order; a family of the same name runs in its stage."""

    LAUNCH = "launch"
    ENVIRONMENT = "environment"
    NETWORK = "network"
    DEVICES = "devices"
    COLLECTIVES = "collectives"
    REHEARSAL = "rehearsal"
    WATCH = "watch"
    RANKS = "ranks"

    @property
    def order(self) -> int:
        """Return the stage's place in the run, from 0."""
        return tuple(Stage).index(self)

    @property
    def gates(self) -> bool:
        """Return whether an error here makes the later stages meaningless."""
        return self in (Stage.LAUNCH, Stage.NETWORK, Stage.DEVICES, Stage.COLLECTIVES)


class Profile(StrEnum):
    """How much a run measures."""

    QUICK = "quick"
    STANDARD = "standard"
    FULL = "full"


class Meeting(msgspec.Struct, frozen=True):
    """How meeting the other ranks in a store went on this rank: its place, in wall seconds.

    ``store_host`` is the host whose rank opened the store, or '' when a launcher did. With an error,
    ``kind`` is how the attempt ended (a ``Reached``), and ``owner`` who holds the port, if known.
    ``elsewhere`` are ranks of a job of this size that were seen here while this rank waited for the
    others, and that meet at another port.
    """

    place: str
    duration_s: float
    error: str = ""
    store_host: str = ""
    kind: str = ""
    owner: str = ""
    elsewhere: tuple[RankProcess, ...] = ()


class Joining(msgspec.Struct, frozen=True):
    """How joining the process group went on this rank."""

    backend: str
    duration_s: float
    error: str | None = None


class KeyValueStore(Protocol):
    """The part of torch's store that probes may use, each under keys that begin with its id.

    It is the channel of the run, not what is under test: small texts, and few of them.
    """

    def set(self, key: str, value: str, /) -> None:
        """Write a text."""

    def get(self, key: str, /) -> bytes:
        """Return the value, waiting for it."""
        ...

    def add(self, key: str, amount: int, /) -> int:
        """Add to a number, 0 at first, and return the sum: all ranks see one order."""
        ...

    def check(self, keys: list[str], /) -> bool:
        """Return whether all keys are there, without waiting."""
        ...

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        """Wait until all keys are there; raises torch's DistStoreError when they are not in time."""

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Return the values of all keys at once, waiting for them."""
        ...


@dataclass(frozen=True)
class Context:
    """Everything a probe may use; a test passes a fake.

    ``target`` and ``joining`` are None before the stage that makes them, ``meeting`` in a test.
    ``timeout`` is the time left for a blocking call. ``machine`` is the same text for processes
    that run on one machine, whatever their hosts are called. ``script`` is the file of the user's
    target, or '' for a built-in one. ``gpus`` are those that this process sees, whether it uses
    them or not; ``asked_backend`` is what the user asked for: auto, gloo or nccl.
    ``watches`` is whether a script of the user's is watched, which chooses its devices itself.
    ``mesh`` is the device mesh that was asked for, if any.
    ``nccl_log`` is the file of NCCL's log of the group, '' where there is none.
    ``baseline`` has the facts of an earlier report by check id and rank, on rank 0 alone; what is
    slower than in it by no more than ``baseline_bound_ratio``, a part of 1, is no finding.
    """

    rank: int
    local_rank: int
    world_size: int
    environ: Mapping[str, str]
    host: str
    backend: str
    device: str
    profile: Profile
    clock: Callable[[], float]
    timeout: timedelta
    machine: str = ""
    script: str = ""
    gpus: int = 0
    asked_backend: str = "auto"
    watches: bool = False
    mesh: tuple[Axis, ...] = ()
    baseline: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    baseline_bound_ratio: float = 0.05
    meeting: Meeting | None = None
    joining: Joining | None = None
    nccl_log: str = ""
    store: KeyValueStore | None = None
    target: LiveTarget | None = None

    def require_meeting(self) -> None:
        """Raise Skip when this rank could not meet the others."""
        if self.meeting is not None and self.meeting.error:
            raise Skip("the ranks cannot meet")

    def require_gpu(self) -> None:
        """Raise Skip unless this rank works on a CUDA device."""
        if not self.on_gpu:
            raise Skip("this run uses no GPU")

    def require_watch(self) -> None:
        """Raise Skip unless a script of the user's is watched."""
        if not self.watches:
            raise Skip("only ddpcheck watch sees a script do it")

    def require_group(self) -> None:
        """Raise Skip unless this rank has joined the process group."""
        if self.joining is None or self.joining.error is not None:
            raise Skip("there is no process group")

    def require_target(self) -> LiveTarget:
        """Return the target; raises Skip when there is none to measure."""
        if self.target is None:
            raise Skip("there is no target to measure: the rehearsal did not run to its end")
        return self.target

    @property
    def on_gpu(self) -> bool:
        """Return whether this rank works on a CUDA device."""
        return self.device.startswith("cuda")


Facts = msgspec.Struct


@dataclass(frozen=True)
class Check:
    """One validated module of the catalogue.

    ``severity`` is what its findings get where a settings file says so, whatever they had.
    """

    id: str
    stage: Stage
    title: str
    manual: str
    facts_type: type[Facts]
    module: ModuleType = field(repr=False)
    severity: Severity | None = None

    @property
    def is_inquest(self) -> bool:
        """Return whether the check judges how the ranks came through, measuring nothing."""
        return self.facts_type is Testimony

    @property
    def is_observer(self) -> bool:
        """Return whether the check watches the rehearsal instead of probing by itself."""
        return hasattr(self.module, "Observer")

    @property
    def is_kept(self) -> bool:
        """Return whether what its observer saw is told while the script goes on."""
        return self.is_observer and bool(getattr(self.module.Observer, "is_kept", False))

    def probe(self, ctx: Context) -> Facts:
        """Measure this rank's facts."""
        return cast(Facts, self.module.probe(ctx))

    def observer(self, ctx: Context) -> Any:
        """Return a new observer for this rank."""
        return self.module.Observer(ctx)

    def judge(self, facts: Mapping[int, Facts]) -> list[Finding]:
        """Return the findings for the facts of all ranks, each carrying this check's id."""
        found: list[Finding] = self.module.judge(facts)
        return [
            msgspec.structs.replace(each, id=self.id, severity=self.severity or each.severity)
            for each in found
        ]

    def summarize(self, facts: Mapping[int, Facts]) -> str:
        """Return one line on what was measured, or an empty text."""
        summarize = getattr(self.module, "summarize", None)
        return cast(str, summarize(facts)) if summarize else ""

    def recommend(self, facts: Mapping[int, Facts]) -> dict[str, Recommendation]:
        """Return the settings these facts speak for."""
        recommend = getattr(self.module, "recommend", None)
        return cast("dict[str, Recommendation]", recommend(facts)) if recommend else {}

    def representatives(self, facts: Mapping[int, Facts]) -> set[int]:
        """Return the ranks whose facts stand for all in a report that has no room for all."""
        chosen = getattr(self.module, "representatives", None)
        return cast("set[int]", chosen(facts)) if chosen else set()
