"""By which factor gradients of a sharded model are changed between the backward pass and the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ddpcheck.finding import Location
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.meshes import local_part

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

KEPT_STEPS = 8
# What is scaled has one factor, but for rounding, in bfloat16 as well; clipped by value it has not.
ONE_FACTOR_RELATIVE = 2e-2
LEAST_PARAMETERS = 2


class Scalings:
    """A part of an observer: keeps 2-norms of the parts that are here, in the first steps."""

    def __init__(self) -> None:
        self.location: Location | None = None
        self._live: Trained | None = None
        self._after: torch.Tensor | None = None
        self._pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def factors(self) -> tuple[float, ...]:
        """Return each step's factor, 0 where it is not one; waits for the device."""
        return tuple(
            _factor(before.double().cpu(), now.double().cpu()) for before, now in self._pairs
        )

    def on_built(self, live: Trained) -> None:
        """Remember the model, if it is sharded."""
        parameters = list(live.module.parameters())
        is_sharded = any(
            hasattr(p, "placements") or hasattr(p, "_fsdp_flattened") for p in parameters
        )
        self._live = live if is_sharded else None

    def on_called(self, call: Any) -> None:
        """Keep the norms as a backward pass has left them."""
        if call.name == "backward" and self._live is not None and len(self._pairs) < KEPT_STEPS:
            self._after = self._norms()

    def on_gradients(self, _step: int) -> None:
        """Keep the norms as the optimizer gets them."""
        before, self._after = self._after, None
        now = self._norms() if before is not None else None
        if before is not None and now is not None and before.shape == now.shape:
            self.location = self.location or users_line()
            self._pairs.append((before, now))

    def _norms(self) -> torch.Tensor | None:
        parameters = self._live.module.parameters() if self._live is not None else ()
        parts = [part for each in parameters if (part := local_part(each.grad)) is not None]
        if not parts:
            return None
        return torch.stack([torch.linalg.vector_norm(each.detach().float()) for each in parts])


def _factor(before: torch.Tensor, now: torch.Tensor) -> float:
    """Return what all norms were multiplied with, 0 where that is not one number."""
    known = (before > 0) & (now > 0) & before.isfinite() & now.isfinite()
    if int(known.sum()) < LEAST_PARAMETERS:
        return 0.0
    ratios = now[known] / before[known]
    spread = float(ratios.max() / ratios.min()) - 1.0
    return float(ratios.median()) if spread <= ONE_FACTOR_RELATIVE else 0.0
