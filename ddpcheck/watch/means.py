"""Watch what a script's losses are the mean over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ddpcheck.finding import Location
from ddpcheck.measures.means import Mean

# More tells no more; how targets are ignored, a few tell.
KEPT_MEANS = 512
KEPT_RUNS = 32


@dataclass
class _Kept:
    line: int
    step: int
    number: int
    targets: int
    counted: torch.Tensor
    runs: torch.Tensor | None
    gradient: torch.Tensor | None = None

    def come(self, gradient: torch.Tensor) -> None:
        """Note the gradient that comes to the mean; it may come more than once."""
        own = gradient.detach().clone()
        self.gradient = own if self.gradient is None else self.gradient + own


class Means:
    """Counts the targets of each mean, and notes the gradient: both stay where they are.

    What is never backpropagated, a metric say, does not count.
    """

    def __init__(self) -> None:
        self._lines: dict[Location | None, int] = {}
        self._kept: list[_Kept] = []
        self._step = 0
        self._numbers: dict[int, int] = {}

    @property
    def lines(self) -> tuple[Location | None, ...]:
        """Return the lines, to which ``Mean.line`` points."""
        return tuple(self._lines)

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
        self._kept.append(kept)

    def on_step(self, step: int) -> None:
        """Begin another step."""
        self._step = step + 1
        self._numbers = {}

    def read(self) -> tuple[Mean, ...]:
        """Return the means that were backpropagated; waits for the device."""
        return tuple(
            Mean(
                line=kept.line,
                step=kept.step,
                number=kept.number,
                targets=kept.targets,
                counted=int(kept.counted),
                runs=0 if kept.runs is None else int(kept.runs),
                gradient=float(kept.gradient),
            )
            for kept in self._kept
            if kept.gradient is not None
        )


def _runs(valid: torch.Tensor) -> torch.Tensor:
    """Return how many runs of valid targets there are."""
    return (valid[1:] & ~valid[:-1]).sum() + valid[:1].sum()
