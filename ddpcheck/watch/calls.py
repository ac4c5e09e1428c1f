"""Collectives as Python calls them: which, on what, from where."""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from ddpcheck.finding import Location
from ddpcheck.watch.callsite import users_line

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
TORCHS_OWN = str(Path(torch.__file__).parent)
# Of calls, and of what ranks do between them, what takes longer is looked at more closely.
SLOW_S = 1.0
# Of calls before the stream of events begins, the last ones are told when it does.
KEPT_EARLY = 64

Tell = Callable[[str, float, dist.ProcessGroup | None, bool], None]


@dataclass(frozen=True)
class Called:
    """A call that may wait for other ranks and has returned; ``group`` is empty where all are in it.

    ``before_s`` is how long the rank had done other things since its last such call. What is
    ``is_async`` is waited for elsewhere. A long one has its line, and the timeout of its group.
    """

    name: str
    took_s: float
    before_s: float = 0.0
    group: tuple[int, ...] = ()
    is_async: bool = False
    location: Location | None = None
    timeout_s: float | None = None


class Meetings:
    """Tells ``called`` of each call that waits for other ranks, once ``begin`` was called."""

    def __init__(self, emit: Callable[[str, Called], None]) -> None:
        self._emit = emit
        self._has_begun = False
        self._early: deque[Called] = deque(maxlen=KEPT_EARLY)
        self._left = perf_counter()

    def begin(self) -> None:
        """Tell of what was before, and from now on of each call at once."""
        self._has_begun = True
        while self._early:
            self._emit("called", self._early.popleft())

    def told(
        self,
        name: str,
        entered: float,
        group: dist.ProcessGroup | None = None,
        is_async: bool = False,
    ) -> None:
        """Tell that this call has returned."""
        now = perf_counter()
        took_s, before_s, self._left = now - entered, entered - self._left, now
        # What is in the arguments is the user's: he must not notice.
        with suppress(Exception):
            call = Called(name, took_s, before_s, _ranks(group), is_async)
            if max(took_s, before_s) >= SLOW_S:
                call = replace(call, location=users_line(), timeout_s=_timeout_s(group))
            if self._has_begun:
                self._emit("called", call)
            else:
                self._early.append(call)


def _ranks(group: dist.ProcessGroup | None) -> tuple[int, ...]:
    if group is None or group is dist.group.WORLD:
        return ()
    return tuple(dist.get_process_group_ranks(group))


def _timeout_s(group: dist.ProcessGroup | None) -> float | None:
    """Return after how long the group gives up; None where it does not say."""
    with suppress(AttributeError, RuntimeError, ValueError):
        own: Any = group or dist.group.WORLD
        backends = [own._get_backend(device) for device in own._device_types]
        return min(float(each.options._timeout.total_seconds()) for each in backends)
    return None


class Recorder(Protocol):
    """Where calls are noted."""

    def enter_call(self, what: str, site: str) -> Any:
        """Note that the main thread enters a collective; return what ``leave_call`` takes."""

    def leave_call(self, call: Any) -> None:
        """Note that it has left this collective."""


@contextmanager
def recorded_calls(recorder: Recorder, tell: Tell | None = None) -> Generator[None]:
    """Note each collective on the world group that is called by torch.distributed's names.

    ``tell`` hears of those on any group once they have returned: the name, when that was entered, the
    group, and whether it is waited for elsewhere.
    """
    before = {name: getattr(dist, name) for name in (*ALIKE, *UNEVEN) if hasattr(dist, name)}
    for name, function in before.items():
        _put(name, _noting(name, function, recorder, tell))
    try:
        yield
    finally:
        for name, function in before.items():
            _put(name, function)


def _put(name: str, function: Any) -> None:
    setattr(dist, name, function)
    setattr(distributed_c10d, name, function)


def _noting(
    name: str,
    function: Callable[..., Any],
    recorder: Recorder,
    tell: Tell | None,
) -> Callable[..., Any]:
    telling = _telling(name, function, tell)

    @functools.wraps(function)
    def noted(*arguments: Any, **named: Any) -> Any:
        frame = sys._getframe(1)
        # What torch calls to carry out another collective is part of that one.
        if frame.f_code.co_filename.startswith(TORCHS_OWN):
            return function(*arguments, **named)
        if not _is_worlds(arguments, named):
            return telling(*arguments, **named)
        call = recorder.enter_call(described(name, arguments, named), _site(frame))
        try:
            return telling(*arguments, **named)
        finally:
            recorder.leave_call(call)

    return noted


def _telling(name: str, function: Callable[..., Any], tell: Tell | None) -> Callable[..., Any]:
    if tell is None:
        return function

    def told(*arguments: Any, **named: Any) -> Any:
        entered = perf_counter()
        result = function(*arguments, **named)
        is_async = isinstance(result, dist.Work) or bool(named.get("async_op"))
        tell(name, entered, next(iter(_groups(arguments, named)), None), is_async)
        return result

    return told


def described(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Return a collective in one line, such as "all_reduce SUM float32[1023]"."""
    if name not in ALIKE:
        return name
    given = [*arguments, *named.values()]
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    ops = [
        str(each).rpartition(".")[2] for each in given if isinstance(each, dist.ReduceOp.RedOpType)
    ]
    shown = [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors[:1]]
    reduced = (ops or ["SUM"])[:1] if "reduce" in name else []
    return " ".join([name, *reduced, *shown])


def _is_worlds(arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
    return all(group is dist.group.WORLD for group in _groups(arguments, named))


def _groups(arguments: tuple[Any, ...], named: dict[str, Any]) -> list[dist.ProcessGroup]:
    return [each for each in (*arguments, *named.values()) if isinstance(each, dist.ProcessGroup)]


def _site(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return f"{path.parent.name}/{path.name}:{frame.f_lineno}"
