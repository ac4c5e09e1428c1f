"""How fast a schedule of the learning rate runs, and whether it was planned to."""

from __future__ import annotations

import msgspec

from ddpcheck.finding import Location

# Fewer optimizer steps may have their number of scheduler steps by chance.
LEAST_STEPS = 3
# A plan in batches of all ranks is rounded by a rank's share of an epoch: it may end a little early.
LEAST_IDLE_STEPS = 2
LEAST_IDLE_RATIO = 0.2
# Every plan is a whole number of epochs that are shorter.
LEAST_EPOCH_STEPS = 4
# Of batches that ranks share a rank rounds its own number in each epoch.
REST_RATIO = 0.1


class Pace(msgspec.Struct, frozen=True):
    """A scheduler's steps between the steps of its optimizer, as long as its plan lasted.

    ``steps`` is how many of the optimizer's were counted, of ``total`` that were made; ``fewest``
    and ``most`` how many of the scheduler's came after one of them, ``backwards`` how many backward
    passes in the mean, and ``per_backward`` whether the scheduler made one for each. ``planned`` is
    after how many it is at its end (0: unknown), ``idle`` how many steps the optimizer made after
    that end, and ``batches`` how many a rank has in an epoch (0: unknown). ``rest`` is the rate of the
    last step as a part of the largest one.
    """

    scheduler: str
    location: Location | None = None
    planned: int = 0
    steps: int = 0
    total: int = 0
    fewest: int = 0
    most: int = 0
    backwards: float = 1.0
    per_backward: bool = False
    idle: int = 0
    batches: int = 0
    rest: float = 1.0


def is_per_rank(pace: Pace, world_size: int) -> bool:
    """Return whether the scheduler makes as many steps as there are ranks, several, each time."""
    return pace.fewest == pace.most == world_size > 1 and pace.steps >= LEAST_STEPS


def is_per_batch(pace: Pace) -> bool:
    """Return whether it makes a step for each of several backward passes, each time."""
    return pace.per_backward and pace.fewest > 1 and pace.steps >= LEAST_STEPS


def ended_early(pace: Pace) -> bool:
    """Return whether the training went on for long after the schedule's end."""
    return pace.idle >= max(LEAST_IDLE_STEPS, LEAST_IDLE_RATIO * pace.total)


def ran_its_plan(pace: Pace) -> bool:
    """Return whether the scheduler came to the end of its plan, all but a rest, as the training did."""
    made = pace.total * pace.fewest
    is_done = made >= (1 - REST_RATIO) * pace.planned if pace.planned else pace.rest <= REST_RATIO
    return is_done and not ended_early(pace)


def is_planned_in_optimizer_steps(pace: Pace) -> bool:
    """Return whether the plan is epochs of the optimizer's steps, and none of the scheduler's own.

    Both hold for an even number of epochs on two ranks, say: then nobody can tell.
    """
    optimizers = _rounded(pace.batches, pace.backwards)
    if not pace.planned or min(optimizers) < LEAST_EPOCH_STEPS:
        return False
    own = range(min(optimizers) * pace.fewest - pace.fewest + 1, max(optimizers) * pace.most + 1)
    return _is_whole(pace.planned, optimizers) and not _is_whole(pace.planned, own)


def _rounded(batches: int, each: float) -> range:
    """Return how many steps an epoch may have whose last batches are left out, or make one."""
    down = int(batches / max(each, 1.0))
    return range(down, down + 1 + (down * max(each, 1.0) < batches))


def _is_whole(total: int, epochs: range) -> bool:
    return any(total % length == 0 for length in epochs)
