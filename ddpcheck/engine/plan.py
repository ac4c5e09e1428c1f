"""The plan: which checks run, in which stages, for how long at most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ddpcheck.check import Check, Profile, Stage

# What a profile does to every deadline: a full run measures about eight times as much.
DEADLINE_SCALE = {Profile.QUICK: 1.0, Profile.STANDARD: 1.0, Profile.FULL: 8.0}

# A user's own training takes as long as it takes.
UNBOUNDED_S = 30 * 24 * 3600.0
BEAT_S = 0.2
# The store serves so many ranks at that pace; more beat less often.
BRISK_RANKS = 512
# A rank that held the GIL throughout is found so late after its deadline.
SILENCE_SLACK_S = 0.3
# A loop that took so much longer than its pause was not running: the machine slept, say.
PAUSE_S = 5.0


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
        if self.stage is Stage.WATCH:
            return UNBOUNDED_S
        return probe_deadline_s * (len(self.probes) + 1)


def steps_of(checks: Sequence[Check]) -> tuple[Step, ...]:
    """Return the stages in which these checks measure, in the order of the run."""
    measuring = [check for check in checks if not check.is_inquest]
    ordered = sorted(measuring, key=lambda check: check.stage.order)
    grouped = groupby(ordered, key=lambda check: check.stage)
    return tuple(Step(stage, tuple(members)) for stage, members in grouped)


def steps_of_watching(checks: Sequence[Check]) -> tuple[Step, ...]:
    """Return the one stage of a user's own training, in which checks only look on."""
    looking_on = [replace(check, stage=Stage.WATCH) for check in checks if check.is_observer]
    return (Step(Stage.WATCH, tuple(looking_on)),)


def probe_deadline_s(base_s: float, profile: Profile, world_size: int) -> float:
    """Return one probe's deadline in seconds.

    Rendezvous and fan-in grow with the world, less than linearly: 1024 ranks get twice the
    time of a few, a million (or a mistyped WORLD_SIZE) eleven times.
    """
    return base_s * DEADLINE_SCALE[profile] * (1 + math.log2(1 + world_size / 1024))


def slowness(world_size: int) -> float:
    """Return how many times as long so many ranks pause between two questions to the store, 1 for few."""
    return max(1.0, world_size / BRISK_RANKS)


def silence_s(deadline_s: float) -> float:
    """Return after how long a rank without a beat has fallen silent.

    No healthy check holds the GIL for longer than it may take altogether.
    """
    return deadline_s + SILENCE_SLACK_S
