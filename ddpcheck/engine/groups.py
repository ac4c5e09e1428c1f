"""The collectives of a watched script on groups other than the world, kept in this process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch
import torch.distributed as dist

from ddpcheck.engine.blackbox import BlackBox
from ddpcheck.measures.testimony import MAKING, Call, GroupCalls
from ddpcheck.watch.callsite import users_line

Ranks = tuple[int, ...]
# So many calls of a group are told, of so many groups.
TOLD_CALLS = 64
TOLD_GROUPS = 64
# What ranks that compute one thing together exchange in a backward pass.
SHARING = ("all_reduce", "all_gather", "reduce_scatter")


class Boxes:
    """A record for each group; ``emit`` tells observers of ``joint`` and ``dropped``."""

    def __init__(self, emit: Callable[..., None]) -> None:
        self._emit = emit
        self._boxes: dict[str, tuple[Ranks, BlackBox]] = {}
        self._joint: set[Ranks] = set()

    def recorder_of(self, group: dist.ProcessGroup) -> BlackBox | None:
        """Return the record of this group's calls."""
        with suppress(Exception):  # a group of a kind of its own may lack what torch's have
            name = str(group.group_name)
            if name not in self._boxes:
                self._boxes[name] = (_ranks_of(group), BlackBox(None))
            return self._boxes[name][1]
        return None

    def recorder_of_making(self) -> BlackBox:
        """Return the record of the calls that make groups."""
        world = tuple(range(dist.get_world_size())) if dist.is_initialized() else ()
        return self._boxes.setdefault(MAKING, (world, BlackBox(None)))[1]

    def begins(self, name: str, group: dist.ProcessGroup | None) -> None:
        """Look whether a backward pass makes this call."""
        if name.startswith(SHARING) and torch._C._current_graph_task_id() >= 0:
            with suppress(Exception):
                ranks = _ranks_of(group)
                if len(ranks) > 1 and ranks not in self._joint:
                    self._joint.add(ranks)
                    self._emit("joint", ranks)

    def dropped(self, what: str) -> None:
        """Tell of a call whose handle nobody keeps."""
        with suppress(Exception):
            self._emit("dropped", what, users_line())

    @property
    def count(self) -> int:
        """Return how many calls were entered."""
        return sum(box.count for _, box in list(self._boxes.values()))

    def told(self) -> tuple[GroupCalls, ...]:
        """Return the last calls of each group, from any thread."""
        boxes = sorted(self._boxes.copy().items(), key=lambda each: -each[1][1].count)
        return tuple(
            GroupCalls(name, ranks, _last_calls(box), box.digest)
            for name, (ranks, box) in boxes[:TOLD_GROUPS]
        )

    def digests(self) -> dict[str, str]:
        """Return what is equal on members of a group that made equally many, equal calls."""
        boxes = self._boxes.items()
        return {name: f"{box.count} {box.digest}" for name, (_, box) in boxes if name != MAKING}


def _last_calls(box: BlackBox) -> tuple[Call, ...]:
    with suppress(KeyError, RuntimeError):  # the main thread writes there, unless it stands still
        return box.flight.calls[-TOLD_CALLS:]
    return ()


def _ranks_of(group: dist.ProcessGroup | None) -> Ranks:
    return tuple(sorted(dist.get_process_group_ranks(group or dist.group.WORLD)))
