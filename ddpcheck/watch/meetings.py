"""How long calls took that wait for other ranks, and what each rank did between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import torch.distributed as dist

from ddpcheck.finding import Location
from ddpcheck.watch.callsite import users_line

# Of calls, and of what ranks do between them, what takes longer is looked at more closely.
SLOW_S = 1.0
# Of calls before the stream of events begins, the last ones are told when it does.
KEPT_EARLY = 64


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


@dataclass(frozen=True)
class Grouped:
    """A group that a script has made, without a word of its timeout unless it ``is_timed``."""

    ranks: tuple[int, ...]
    is_timed: bool
    timeout_s: float | None
    world_timeout_s: float | None
    location: Location | None


class Meetings:
    """Tells ``called`` of each call that waits for other ranks, and ``grouped`` of each new group.

    It does so once ``begin`` was called.
    """

    def __init__(self, emit: Callable[[str, Called | Grouped], None]) -> None:
        self._emit = emit
        self._has_begun = False
        self._early: deque[tuple[str, Called | Grouped]] = deque(maxlen=KEPT_EARLY)
        self._left = perf_counter()

    def begin(self) -> None:
        """Tell of what was before, and from now on of each call at once."""
        self._has_begun = True
        while self._early:
            self._emit(*self._early.popleft())

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
            self._tell("called", call)

    def made(self, result: Any, timeout: Any) -> None:
        """Tell of the groups in what a call that makes groups returned."""
        world_s = _timeout_s(None)
        own, *others = result if isinstance(result, tuple) else (result,)
        for group in dict.fromkeys([own, *(each for some in others for each in some)]):
            if isinstance(group, dist.ProcessGroup):
                ranks = tuple(dist.get_process_group_ranks(group))
                is_timed = timeout is not None
                made = Grouped(ranks, is_timed, _timeout_s(group), world_s, users_line())
                self._tell("grouped", made)

    def _tell(self, event: str, told: Called | Grouped) -> None:
        if self._has_begun:
            self._emit(event, told)
        else:
            self._early.append((event, told))


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
