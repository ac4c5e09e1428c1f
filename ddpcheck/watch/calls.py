"""Collectives as Python calls them: which, on what, from where."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import current_thread, main_thread
from time import perf_counter
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from ddpcheck.measures.testimony import ASIDE
from ddpcheck.watch.aside import ASIDE_FROM

# All ranks must call these alike; sizes may differ between ranks in those of the second line.
ALIKE = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor"),
    *("reduce_scatter", "reduce_scatter_tensor", "barrier", "all_reduce_coalesced"),
    *("all_gather_single", "reduce_scatter_single"),
)
UNEVEN = (
    *("all_to_all", "all_to_all_single", "gather", "scatter", "all_gather_object"),
    *("gather_object", "broadcast_object_list", "scatter_object_list"),
)
# Those with one rank from which, or to which, all goes: what it is called, and its place.
ROOTS = {
    "broadcast": ("src", 1),
    "broadcast_object_list": ("src", 1),
    "scatter": ("src", 2),
    "scatter_object_list": ("src", 2),
    "reduce": ("dst", 1),
    "gather": ("dst", 2),
    "gather_object": ("dst", 2),
}
# All ranks of the world must call these alike, whether they are in the group or not; with the
# place of the timeout among their arguments.
MAKING = {"new_group": 1, "new_subgroups": 2, "new_subgroups_by_enumeration": 1}
TORCHS_OWN = str(Path(torch.__file__).parent)
FSDPS_OWN = str(Path(TORCHS_OWN, "distributed", "fsdp"))
CHECKPOINTS_OWN = str(Path(TORCHS_OWN, "distributed", "checkpoint"))
# A call on a group that this rank is no member of returns at once.
OUTSIDE = "outside"


class Recorder(Protocol):
    """Where calls are noted."""

    def enter_call(self, what: str, site: str) -> Any:
        """Note that the main thread enters a collective; return what ``leave_call`` takes."""

    def leave_call(self, call: Any) -> None:
        """Note that it has left this collective."""


class Groups(Protocol):
    """Where calls on other groups than the world are noted. None of it raises."""

    def recorder_of(self, group: Any, *, by_torch: bool) -> Recorder | None:
        """Return where calls on this group are noted, the world's with None; None for nowhere."""

    def recorder_of_making(self) -> Recorder:
        """Return where the making of groups is noted."""
        ...

    def dropped(self, what: str) -> None:
        """Hear that the caller does not keep what it could wait for this call by."""

    def begins(self, name: str, group: dist.ProcessGroup | None) -> None:
        """Hear of a collective, the world's with None, that anybody's code but FSDP's calls."""


# The name of a collective, and its arguments.
Begins = Callable[[str, tuple[Any, ...], dict[str, Any]], None]
# The name, when it was entered, the group, None for the world, and whether it is waited for elsewhere.
Returned = Callable[[str, float, dist.ProcessGroup | None, bool], None]
# What a call that makes groups returned, and the timeout that it was given, None for none.
Made = Callable[[Any, Any], None]


@contextmanager
def recorded_calls(
    recorder: Recorder,
    groups: Groups | None = None,
    *,
    begins: Begins | None = None,
    returned: Returned | None = None,
    made: Made | None = None,
) -> Generator[None]:
    """Note each collective that is called by torch.distributed's names.

    The world's are noted in ``recorder``, those on other groups where ``groups`` says, if at all.
    ``begins`` hears of those that a script calls before they begin, and ``returned`` once they have
    returned, ``made`` of those that make groups; what they raise is left alone.
    """
    hear = _Hearing(begins, returned, made)
    names = (*ALIKE, *UNEVEN, *(MAKING if groups else ()))
    before = {name: getattr(dist, name) for name in names if hasattr(dist, name)}
    for name, function in before.items():
        _put(name, _noting(name, function, _choice(name, recorder, groups), hear))
    try:
        yield
    finally:
        for name, function in before.items():
            _put(name, function)


def _put(name: str, function: Any) -> None:
    setattr(dist, name, function)
    setattr(distributed_c10d, name, function)


def _choice(
    name: str, recorder: Recorder, groups: Groups | None
) -> Callable[[FrameType, tuple[Any, ...], dict[str, Any]], Recorder | None]:
    """Return what tells where a call is noted."""

    def chosen(
        frame: FrameType, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Recorder | None:
        # What torch calls to carry out another collective is part of that one.
        is_torchs = frame.f_code.co_filename.startswith(TORCHS_OWN)
        if name in MAKING:
            is_local = named.get("use_local_synchronization", False)
            return None if is_torchs or is_local or not groups else groups.recorder_of_making()
        group = _group_in(arguments, named)
        if isinstance(group, str):
            return None
        if groups is not None:
            if not frame.f_code.co_filename.startswith(FSDPS_OWN):
                groups.begins(name, group)
            with suppress(Exception):  # whatever a script may pass there
                if not is_torchs and _is_dropped(frame, arguments, named):
                    groups.dropped(described(name, arguments, named))
        if group is None and not is_torchs:
            return recorder
        return groups.recorder_of(group, by_torch=is_torchs) if groups is not None else None

    return chosen


def _noting(
    name: str,
    function: Callable[..., Any],
    chosen: Callable[[FrameType, tuple[Any, ...], dict[str, Any]], Recorder | None],
    hear: _Hearing,
) -> Callable[..., Any]:
    heard = hear.around(name, function)

    @functools.wraps(function)
    def noted(*arguments: Any, **named: Any) -> Any:
        frame = sys._getframe(1)
        recorder = chosen(frame, arguments, named)
        # What torch calls to carry out another collective is part of that one.
        called = function if frame.f_code.co_filename.startswith(TORCHS_OWN) else heard
        if recorder is None:
            return called(*arguments, **named)
        what, site = described(name, arguments, named), _site(frame)
        if _is_aside(frame):
            what, site = f"{what} {ASIDE}", str(ASIDE_FROM.line or site)
        call = recorder.enter_call(what, site)
        try:
            return called(*arguments, **named)
        finally:
            recorder.leave_call(call)

    return noted


class _Hearing(NamedTuple):
    begins: Begins | None
    returned: Returned | None
    made: Made | None

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function so that it is heard of."""
        if name in MAKING:
            return self._around_making(name, function)
        if self.begins is None and self.returned is None:
            return function

        def heard(*arguments: Any, **named: Any) -> Any:
            with suppress(Exception):
                if self.begins is not None:
                    self.begins(name, arguments, named)
            entered = perf_counter()
            result = function(*arguments, **named)
            with suppress(Exception):
                if self.returned is not None:
                    is_async = isinstance(result, dist.Work) or bool(named.get("async_op"))
                    group = _group_in(arguments, named)
                    self.returned(name, entered, None if group == OUTSIDE else group, is_async)
            return result

        return heard

    def _around_making(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def heard(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            with suppress(Exception):
                if self.made is not None:
                    self.made(result, _timeout_in(name, arguments, named))
            return result

        return heard


def described(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Return a collective in one line, such as "all_reduce SUM float32[1023]".

    Those with a root say which rank of the world it is: "broadcast float32[1] from rank 0".
    """
    if name in MAKING:
        ranks = next(iter((*arguments, *named.values())), None)
        shown = sorted(ranks) if isinstance(ranks, list) else ranks
        return f"{name} {'of all ranks' if shown is None else shown}"
    root = _root(name, arguments, named) if name in ROOTS else []
    if name not in ALIKE:
        return " ".join([name, *root])
    given = [*arguments, *named.values()]
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    ops = [
        str(each).rpartition(".")[2] for each in given if isinstance(each, dist.ReduceOp.RedOpType)
    ]
    shown = [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors[:1]]
    reduced = (ops or ["SUM"])[:1] if "reduce" in name else []
    return " ".join([name, *reduced, *shown, *root])


def _root(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[str]:
    side, place = ROOTS[name]
    root = named.get(side, next(iter(arguments[place : place + 1]), None))
    with suppress(Exception):  # whatever a script may pass there
        if root is None and (in_group := named.get(f"group_{side}")) is not None:
            group: Any = _group_in(arguments, named) or dist.group.WORLD
            root = dist.get_global_rank(group, in_group)
        return [f"{'from' if side == 'src' else 'to'} rank {int(root or 0)}"]
    return []


def _group_in(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the group that is called upon: None for the world, OUTSIDE where this rank is not."""
    for each in (*arguments, *named.values()):
        if isinstance(each, dist.ProcessGroup):
            return None if each is dist.group.WORLD else each
        if isinstance(each, int) and each == dist.GroupMember.NON_GROUP_MEMBER:
            return OUTSIDE
    return None


def _timeout_in(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return next(iter(arguments[MAKING[name] : MAKING[name] + 1]), named.get("timeout"))


def _is_dropped(frame: FrameType, arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Return whether the call that a frame is making is a statement, whose value is thrown away.

    Whoever works on a GPU may wait for the whole device instead.
    """
    if not named.get("async_op"):
        return False
    tensors = [e for e in (*arguments, *named.values()) if isinstance(e, torch.Tensor)]
    on_cpu = bool(tensors) and all(each.device.type == "cpu" for each in tensors)
    return on_cpu and _next_opname(frame.f_code, frame.f_lasti) == "POP_TOP"


@functools.lru_cache(maxsize=256)
def _next_opname(code: CodeType, offset: int) -> str:
    return next((each.opname for each in dis.get_instructions(code) if each.offset > offset), "")


def _is_aside(frame: FrameType) -> bool:
    is_checkpoints = frame.f_code.co_filename.startswith(CHECKPOINTS_OWN)
    return is_checkpoints and current_thread() is not main_thread()


def _site(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return f"{path.parent.name}/{path.name}:{frame.f_lineno}"
