"""The collectives of a watched script on groups of its own, and what is sent between two ranks.

They are kept in this process and, the last ones, in a file that survives it, as a black box does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ddpcheck.engine.blackbox import MARK, BlackBox
from ddpcheck.measures.testimony import BY_TORCH, MAKING, Call, GroupCalls, between
from ddpcheck.watch.callsite import is_inside_function, users_line
from ddpcheck.watch.replaced import Around, Replaced

Ranks = tuple[int, ...]
# So many calls of a group are told, of so many groups.
TOLD_CALLS = 64
TOLD_GROUPS = 64
# What ranks that compute one thing together exchange in a backward pass.
SHARING = ("all_reduce", "all_gather", "reduce_scatter")
# What experts exchange: the ranks are replicas in all else.
EXCHANGE = "all_to_all"


class Record:
    """The calls on one group; ``file`` has those of all groups, in order."""

    def __init__(self, name: str, ranks: Ranks, file: BlackBox) -> None:
        self._name = name
        self._file = file
        self._box = BlackBox(None)
        self._ranks = ranks

    @property
    def count(self) -> int:
        """Return how many calls were entered."""
        return self._box.count

    @property
    def digest(self) -> str:
        """Return what is equal on members that made equal calls, and equally many."""
        return f"{self._box.count} {self._box.digest}"

    @property
    def told(self) -> GroupCalls:
        """Return the last calls, from any thread."""
        calls: tuple[Call, ...] = ()
        with suppress(KeyError, RuntimeError):  # the main thread may write there
            calls = self._box.flight.calls[-TOLD_CALLS:]
        return GroupCalls(self._name, self._ranks, calls, self._box.digest)

    def enter_call(self, what: str, site: str) -> tuple[Call, Call]:
        """Note that the rank enters a call."""
        call = self._box.enter_call(what, site)
        return call, self._file.enter_call(MARK.join((self._name, str(call.number), what)), site)

    def leave_call(self, call: tuple[Call, Call]) -> None:
        """Note that the rank has left it."""
        self._box.leave_call(call[0])
        self._file.leave_call(call[1])


class Groups:
    """A record for each group; ``emit`` tells of ``joint``, ``spread``, ``passed``, ``dropped``."""

    def __init__(self, emit: Callable[..., None], file: Path | None) -> None:
        self._emit = emit
        self._file = BlackBox(file)
        self._records: dict[str, Record] = {}
        self._told_of: set[tuple[str, Ranks]] = set()
        self._replaced = Replaced()

    def keep(self, file: Path) -> None:
        """From now on have the last calls in this file, too."""
        self._file = BlackBox(file)
        self._records.clear()

    def install(self) -> None:
        """Note from now on what is sent from one rank to another."""
        for name, is_sender in (("send", True), ("recv", False)):
            self._replaced.put(dist.ProcessGroup, name, self._passing(is_sender=is_sender))

    def close(self) -> None:
        """Put torch's own back."""
        self._replaced.close()

    def recorder_of(self, group: Any, *, by_torch: bool) -> Record | None:
        """Return the record of calls on a group, the world's with None; None where there is none."""
        with suppress(Exception):  # a group of a kind of its own may lack what torch's have
            whole: Any = group or dist.group.WORLD
            name = str(whole.group_name) + (BY_TORCH if by_torch else "")
            return self._record(name, _ranks_of(whole))
        return None

    def recorder_of_making(self) -> Record:
        """Return the record of the calls that make groups."""
        world_size = dist.get_world_size() if dist.is_initialized() else 0
        return self._record(MAKING, tuple(range(world_size)))

    def begins(self, name: str, group: Any) -> None:
        """Look whether a backward pass makes this call, or the forward of a Function."""
        if not name.startswith((*SHARING, EXCHANGE)):
            return
        with suppress(Exception):
            ranks = _ranks_of(group or dist.group.WORLD)
            is_backward = torch._C._current_graph_task_id() >= 0
            event = "joint" if is_backward else "spread"
            event = "exchanged" if name.startswith(EXCHANGE) else event
            if len(ranks) == 1 or (event, ranks) in self._told_of:
                return
            if is_backward or is_inside_function():
                self._told_of.add((event, ranks))
                self._emit(event, ranks)

    def dropped(self, what: str) -> None:
        """Tell of a call whose handle nobody keeps."""
        with suppress(Exception):
            self._emit("dropped", what, users_line())

    @property
    def count(self) -> int:
        """Return how many calls were entered."""
        return sum(each.count for each in list(self._records.values()))

    def told(self) -> tuple[GroupCalls, ...]:
        """Return the last calls of each group, from any thread."""
        records = sorted(self._records.values(), key=lambda each: -each.count)
        return tuple(each.told for each in records[:TOLD_GROUPS])

    def digests(self) -> dict[str, str]:
        """Return a digest of the script's own calls on each of its groups."""
        own = self._records.items()
        return {n: each.digest for n, each in own if GroupCalls(n, ()).is_of_script}

    def _record(self, name: str, ranks: Ranks) -> Record:
        if name not in self._records:
            self._records[name] = Record(name, ranks, self._file)
        return self._records[name]

    def _passing(self, *, is_sender: bool) -> Around:
        def passed(original: Around, group: Any, tensors: Any, peer: Any, *more: Any) -> Any:
            with suppress(Exception):
                here, there = dist.get_rank(), dist.get_global_rank(group, peer)
                pair = (here, there) if is_sender else (there, here)
                record = self._record(between(*pair), pair)
                what = f"a transfer {pair[0]} to {pair[1]}"
                record.leave_call(record.enter_call(what, str(users_line() or "")))
                if ("passed", pair) not in self._told_of:
                    self._told_of.add(("passed", pair))
                    self._emit("passed", pair)
            return original(group, tensors, peer, *more)

        return passed


def _ranks_of(group: Any) -> Ranks:
    return tuple(sorted(dist.get_process_group_ranks(group)))
