"""The parts of a training step."""

from __future__ import annotations

import msgspec


class StepSplit(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's median step in wall seconds.

    ``comm_s`` is the all-reduces' whole time, ``exposed_comm_s`` that of it after the last gradient
    was computed; ``backward_s`` is the backward pass without it.
    ``step_s`` is the wall clock around the whole step; the parts are measured within it, on
    a GPU by events on its stream. ``steps_s`` has the wall seconds of every step that was measured:
    how much they vary, and ``core_waits`` which part of the time may have been lost by waiting for a
    core. Reports of older versions have neither.
    """

    data_s: float
    forward_s: float
    backward_s: float
    exposed_comm_s: float
    optimizer_s: float
    step_s: float
    comm_s: float
    steps: int
    steps_s: tuple[float, ...] = ()
    core_waits: float = 0.0

    @property
    def parts_s(self) -> float:
        """Return the sum of the parts."""
        compute_s = self.forward_s + self.backward_s + self.optimizer_s
        return self.data_s + compute_s + self.exposed_comm_s

    @property
    def exposed_share(self) -> float:
        """Return exposed communication as a share of the step, 0 to 1."""
        return self.exposed_comm_s / self.step_s if self.step_s else 0.0

    @property
    def overlapped_share(self) -> float:
        """Return the share of communication that ran beside backward compute, 0 to 1."""
        if not self.comm_s:
            return 0.0
        return min(1.0, max(0.0, 1 - self.exposed_comm_s / self.comm_s))

    def shares(self) -> dict[str, float]:
        """Return each part as a share of the step, 0 to 1, in the order of the step."""
        parts = {
            "data": self.data_s,
            "forward": self.forward_s,
            "backward": self.backward_s,
            "exposed comm": self.exposed_comm_s,
            "optimizer": self.optimizer_s,
        }
        return {
            name: part_s / self.step_s if self.step_s else 0.0 for name, part_s in parts.items()
        }


class Kernels(msgspec.Struct, frozen=True, kw_only=True):
    """GPU seconds a step, from a profile: NCCL kernels, all others, NCCL with none beside it."""

    comm_s: float
    compute_s: float
    exposed_comm_s: float


def shown_exposed(split: StepSplit, kernels: Kernels | None) -> float:
    """Return the share of the step that communication takes with no compute beside it, 0 to 1.

    Where the host is what a step waits for, its own calls lie between the kernels: where these were
    seen, no more is exposed than those of NCCL that ran alone.
    """
    if kernels is None or not split.step_s:
        return split.exposed_share
    return min(split.exposed_share, kernels.exposed_comm_s / split.step_s)
