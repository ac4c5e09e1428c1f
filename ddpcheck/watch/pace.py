"""Where the host's time goes in each step: in loaders, in other work before the model, in the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ddpcheck.measures.blocks import Block, in_blocks
from ddpcheck.watch.callsite import users_line

if TYPE_CHECKING:
    from ddpcheck.finding import Location
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.calls import Called
    from ddpcheck.watch.feeds import Feed

# The first steps start workers, fill caches, and compile.
WARM_STEPS = 3
KEPT_STEPS = 2000


class Pace:
    """An observer of the steps of a script, from the end of one to the end of the next.

    What a loader takes while the GPU is still at work costs nobody anything, and is left out.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._on_gpu = False
        self._began: float | None = None  # when the step did
        self._asked: float | None = None
        self._mark: torch.cuda.Event | None = None
        self._steps: list[Block] = []
        self._count = 0
        self._by_feed: dict[Feed, float] = defaultdict(float)
        self.forward: Location | None = None
        self.has_async = False
        self._clear()

    def _clear(self) -> None:
        self._loader_s = self._elsewhere_s = self._own_s = 0.0
        self._fetches = 0
        self._is_inside = False  # of the model, for the first time in this step

    @property
    def of_loaders(self) -> tuple[Any, Any, Any]:
        """Return what is to hear that a batch is asked for, is there, or that there is none."""
        return self.on_asked, self.on_fed, self.on_drained

    @property
    def of_steps(self) -> tuple[Any, Any, Any]:
        """Return what is to hear of collectives, of the model's inputs, and of a step's end."""
        return self.on_called, self.on_inputs, self.on_step

    @property
    def on_gpu(self) -> bool:
        """Return whether the model is on a GPU, which the host does not wait for."""
        return self._on_gpu

    def on_built(self, live: Trained) -> None:
        """Note what the model is on."""
        self._on_gpu = live.device.startswith("cuda")

    def on_asked(self, _feed: Feed) -> None:
        """Begin to wait for a batch."""
        if self._on_gpu:
            self._mark = torch.cuda.Event()
            self._mark.record()
        self._asked = self._clock()

    def on_fed(self, feed: Feed) -> None:
        """Note how long the batch took."""
        if self._asked is None:
            return
        took_s = self._clock() - self._asked
        self._asked = None
        self._fetches += 1
        if self._mark is None or self._mark.query():
            self._loader_s += took_s
            self._by_feed[feed] += took_s
        else:
            self._elsewhere_s += took_s

    def on_drained(self, _feed: Feed) -> None:
        """Note that there was no batch."""
        self._asked = None

    def on_called(self, call: Called) -> None:
        """Leave out what a collective took: it may have been a wait for others."""
        self.has_async |= call.is_async
        if self._asked is not None:
            self._asked += call.took_s
        if not self._is_inside:
            self._elsewhere_s += call.took_s

    def on_inputs(self, _step: int, _inputs: object) -> None:
        """Note what was done before the model was first called in this step."""
        if self._is_inside or self._began is None:
            return
        self._is_inside = True
        before_s = self._clock() - self._began
        self._own_s = max(0.0, before_s - self._loader_s - self._elsewhere_s)
        if self._count == WARM_STEPS:
            self.forward = users_line()

    def on_step(self, _step: int) -> None:
        """Keep the step that ends."""
        now = self._clock()
        if self._began is not None:
            self._count += 1
            if WARM_STEPS < self._count <= WARM_STEPS + KEPT_STEPS:
                took_s = now - self._began
                self._steps.append(Block(self._loader_s, self._own_s, took_s, self._fetches))
        self._began = now
        self._clear()

    def blocks(self) -> tuple[Block, ...]:
        """Return the mean steps, block by block."""
        return in_blocks(self._steps)

    @property
    def loop(self) -> Location | None:
        """Return the line that asks the loader for batches which took the most time."""
        by_time = sorted(self._by_feed, key=lambda feed: self._by_feed[feed])
        return by_time[-1].location if by_time else None
