"""The plan: which checks run, in which stages, for how long at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ddpcheck.check import Check, Profile, Stage

# What a profile does to every deadline: a full run measures about eight times as much.
DEADLINE_SCALE = {Profile.QUICK: 1.0, Profile.STANDARD: 1.0, Profile.FULL: 8.0}


@dataclass(frozen=True)
class Step:
    """One stage with its checks, in order."""

    stage: Stage
    checks: tuple[Check, ...]

    @property
    def observers(self) -> tuple[Check, ...]:
        """Return the checks that watch the rehearsal."""
        return tuple(check for check in self.checks if check.is_observer)

    @property
    def probes(self) -> tuple[Check, ...]:
        """Return the checks that measure by themselves."""
        return tuple(check for check in self.checks if not check.is_observer)

    def deadline_s(self, probe_deadline_s: float) -> float:
        """Return the stage's bound: each probe's, and one more for the work around them."""
        return probe_deadline_s * (len(self.probes) + 1)


def steps_of(checks: Sequence[Check]) -> tuple[Step, ...]:
    """Return the stages of these checks, in the order of the run."""
    ordered = sorted(checks, key=lambda check: check.stage.order)
    grouped = groupby(ordered, key=lambda check: check.stage)
    return tuple(Step(stage, tuple(members)) for stage, members in grouped)


def probe_deadline_s(base_s: float, profile: Profile, world_size: int) -> float:
    """Return one probe's deadline in seconds.

    Doubles every 1024 ranks: rendezvous and fan-in grow with the world.
    """
    return base_s * DEADLINE_SCALE[profile] * (1 + world_size / 1024)
