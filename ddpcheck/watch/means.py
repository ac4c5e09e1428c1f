"""Watch what a script's losses are the mean over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.finding import Location
from ddpcheck.measures.means import Mean, whole_count
from ddpcheck.target.live import Trained
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.origins import Origins, origin_of
from ddpcheck.watch.quotients import Count, Quotient, leave_out, quotients
from ddpcheck.watch.weighings import Weighings

# More tells no more; how targets are ignored, a few tell.
KEPT_MEANS = 512
KEPT_RUNS = 32


@dataclass
class _Kept:
    line: int
    step: int
    number: int
    targets: int
    counted: Any
    runs: Any
    gradient: torch.Tensor | None = None
    count: Count | None = None
    # Which kind it is of in its backward pass, where the script takes it by itself.
    like: tuple[int, int] | None = None
    key: tuple[int, int] = (0, 0)

    def come(self, gradient: torch.Tensor) -> None:
        """Note the gradient that comes to the mean; it may come more than once."""
        own = gradient.detach().clone()
        self.gradient = own if self.gradient is None else self.gradient + own

    def come_first(self, gradients: Sequence[torch.Tensor]) -> None:
        """Note the gradient that comes to an operation of one result."""
        self.come(gradients[0])


class Means:
    """Counts the targets of each mean, and notes the gradient: both stay where they are.

    What is never backpropagated, a metric say, does not count.
    """

    def __init__(self) -> None:
        self._lines: dict[Location | None, int] = {}
        self._kept: list[_Kept] = []
        self._step = 0
        self._numbers: dict[object, int] = {}
        self._backwards = 0
        self._ddp: DistributedDataParallel | None = None
        self._syncs = False
        self._takes_some = False
        self._is_compiled = False
        self._origins = Origins()
        self._made_at: dict[tuple[int, int], int] = {}

    @property
    def lines(self) -> tuple[Location | None, ...]:
        """Return the lines, to which ``Mean.line`` points."""
        return tuple(self._lines)

    def has_own_hook(self) -> bool:
        """Return whether a function that is not torch's averages the gradients."""
        hooks = [hook for hook, _ in getattr(self._ddp, "_comm_hooks", ())]
        return any(not str(hook.__module__).startswith("torch.") for hook in hooks)

    def on_built(self, live: Trained) -> None:
        """Remember the DDP, which may leave the averaging to the script."""
        self._ddp = live.ddp

    def on_averaged(self, loss: Any, targets: Any, ignored: int, location: Location | None) -> None:
        """Count the targets that are not ignored."""
        # Targets that are probabilities are never ignored.
        if len(self._kept) >= KEPT_MEANS or targets.is_floating_point():
            return
        line = self._lines.setdefault(location, len(self._lines))
        number = self._numbers[line] = self._numbers.get(line, -1) + 1
        valid = (targets != ignored).reshape(-1)
        runs = _runs(valid) if len(self._kept) < KEPT_RUNS else None
        kept = _Kept(line, self._step, number, targets.numel(), valid.sum(), runs)
        loss.register_hook(kept.come)
        leave_out(loss)
        self._kept.append(kept)

    def on_compiled(self, _module: object) -> None:
        """Remember that a compiler may be at work, which is to find all as it is."""
        self._is_compiled = True

    def on_inputs(self, _step: int, _inputs: object) -> None:
        """Have the lines noted of a script that takes means by itself."""
        if self._takes_some and not self._is_compiled:
            self._origins.begin()

    def on_loss(self, step: int, loss: torch.Tensor) -> None:
        """Look for means that the loss takes by itself."""
        self._origins.end()
        self._syncs = self._syncs or self._ddp is None or self._ddp.require_backward_grad_sync
        if len(self._kept) >= KEPT_MEANS or type(loss) is not torch.Tensor or loss.dim():
            return
        found = () if _is_captured(loss) else tuple(quotients(loss))
        self._backwards += 1
        self._takes_some = self._takes_some or bool(found)
        if found:
            line = self._lines.setdefault(users_line(), len(self._lines))
            for each in found:
                self._keep(each, line, step)

    def _keep(self, found: Quotient, line: int, step: int) -> None:
        # One that a micro-batch had before it in this step is another one.
        same = (line, found.key)
        again = self._numbers[same] = self._numbers.get(same, -1) + 1
        made_at = origin_of(found.divided)
        if made_at is not None:
            self._made_at[same] = self._lines.setdefault(made_at, len(self._lines))
        number = found.count.number if found.count is not None else found.values
        kept = _Kept(line, step, found.key + again, found.values, number, None)
        kept.count, kept.like, kept.key = found.count, (self._backwards, found.kind), same
        found.node.register_prehook(kept.come_first)
        self._kept.append(kept)

    def on_step(self, step: int) -> None:
        """Begin another step; forget one whose gradients DDP was told not to average."""
        if not self._syncs:
            self._kept = [kept for kept in self._kept if kept.step != step]
        self._syncs = False
        self._step = step + 1
        self._numbers = {}

    def read(self, weighings: Weighings, *, by_hand: bool) -> tuple[Mean, ...]:
        """Return the means that were backpropagated; waits for the device.

        Where the script averages ``by_hand``, those of the steps in which it was seen to do so.
        """
        self._origins.end()
        means: list[Mean] = []
        alike: dict[tuple[int, int], list[Mean]] = {}
        for kept in self._kept:
            own = weighings.by_hand(kept.step) if by_hand else weighings.of_hooks(kept.step)
            mean = _mean(kept, own, self._made_at.get(kept.key)) if own is not None else None
            if mean is not None:
                means.append(mean)
                if kept.like is not None:
                    alike.setdefault(kept.like, []).append(mean)
        # Several of a kind, each over another number: of each sample its own, as is right.
        right = {id(m) for ms in alike.values() if len({m.counted for m in ms}) > 1 for m in ms}
        return tuple(mean for mean in means if id(mean) not in right)


def _is_captured(loss: torch.Tensor) -> bool:
    return loss.is_cuda and torch.cuda.is_current_stream_capturing()


def _mean(kept: _Kept, factor: float, made_at: int | None) -> Mean | None:
    """Return what was noted, None where it was not backpropagated, or divides by no count."""
    if kept.gradient is None:
        return None
    number, gradient = float(kept.counted), float(kept.gradient)
    if kept.count is not None:
        number = 1.0 / number if kept.count.is_factor and number else number
        # What comes to the sum is divided already, unless its values are.
        gradient *= 1.0 if kept.count.is_within else number
    counted = whole_count(number)
    if counted is None:
        return None
    return Mean(
        line=kept.line,
        step=kept.step,
        number=kept.number,
        targets=kept.targets,
        counted=counted,
        runs=0 if kept.runs is None else int(kept.runs),
        gradient=gradient,
        by_hand=kept.like is not None,
        factor=factor,
        made_at=made_at,
    )


def _runs(valid: torch.Tensor) -> torch.Tensor:
    """Return how many runs of valid targets there are."""
    return (valid[1:] & ~valid[:-1]).sum() + valid[:1].sum()
