"""Which forward passes no backward pass comes of, though it does of others from the same lines.

A rank that leaves a batch out, because its loss is not finite, say, makes such a pass; one that only
looks at its model makes it from other lines, and a loss may be the sum of several forward passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ddpcheck.finding import Location
from ddpcheck.watch.callsite import users_lines
from ddpcheck.watch.graphs import nodes_of

if TYPE_CHECKING:
    from torch.nn.parallel import DistributedDataParallel

# So many graphs of losses are looked at after several forward passes, and so many after one, to learn
# what is usual; and so many nodes of each.
KEPT_GRAPHS = 64
LEARNT_GRAPHS = 8
KEPT_NODES = 20_000


class Forward(NamedTuple):
    """A forward pass: the lines of the user's that it is called from, the innermost first."""

    lines: tuple[Location, ...]
    is_averaged: bool


class Forwards:
    """Pairs the forward passes of a step with its losses."""

    def __init__(self) -> None:
        self._waiting: list[Forward] = []
        self._trained: set[tuple[Location, ...]] = set()
        # How often one forward pass uses parameters, and how many losses were looked at for that.
        self._most = self._learnt = 0
        self._looked = 0
        self.first_left_out: Location | None = None

    def made(self, ddp: DistributedDataParallel | None) -> None:
        """Note a forward pass, and whether DDP is to average what comes of it."""
        is_averaged = ddp is not None and bool(ddp.require_backward_grad_sync)
        self._waiting.append(Forward(tuple(users_lines()), is_averaged))

    def lost(self, loss: Any, ddp: DistributedDataParallel) -> None:
        """Note which of them a loss is of: its backward pass is about to begin."""
        if not self._waiting:
            return
        count = self._count_of(loss, ddp)
        for _ in range(count):
            self._trained.add(self._waiting.pop().lines)

    def left_out(self) -> int:
        """Return how many of them were left out in the step that ends, and begin another one."""
        known = [each for each in self._waiting if each.is_averaged and each.lines in self._trained]
        self._waiting = []
        if known and self.first_left_out is None:
            self.first_left_out = next(iter(known[0].lines), None)
        return len(known)

    def _count_of(self, loss: Any, ddp: DistributedDataParallel) -> int:
        """Return of how many forward passes a loss is: of all, where that is not known."""
        count = len(self._waiting)
        if count == 1:
            if self._learnt < LEARNT_GRAPHS:
                self._learnt += 1
                self._most = max(self._most, _uses(loss, ddp) or 0)
            return 1
        if not self._most or self._looked == KEPT_GRAPHS:
            return count
        self._looked += 1
        uses = _uses(loss, ddp)
        return count if uses is None or uses > self._most else min(uses, 1)


def _uses(loss: Any, ddp: DistributedDataParallel) -> int | None:
    """Return how often the graph of a loss uses parameters; None where it is too large."""
    parameters = {id(each) for each in ddp.parameters()}
    nodes = list(nodes_of([loss], KEPT_NODES + 1))
    if len(nodes) > KEPT_NODES:
        return None
    sources = (source for node in nodes for source, _ in node.next_functions)
    return sum(id(getattr(source, "variable", None)) in parameters for source in sources)
