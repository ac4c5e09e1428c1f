"""Which rank comes late to the steps of a training, and by how much: blocks of steps, rank by rank.

All ranks of a synchronous training end a step together, so the rank that spends more of it before
the collectives spends less in them, where the others wait: clocks of hosts need not agree for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from statistics import median, median_low

import msgspec

# Steps of one block. Workers hand batches over in bursts, one each: within a block that is even.
BLOCK_STEPS = 4
# Twice what a process that is woken up may wait for a core beside others (a slice is some 3 ms).
LEAST_LATE_S = 0.010
# Of the step; a tenth is what a rank's place or its host make of it.
LEAST_STEP_RATIO = 0.2
# Two ranks whose loaders compute alike may get unlike parts of a busy machine's cores: with two
# other processes on two cores, one of the four may run alone beside three.
LEAST_TIMES_RATIO = 4.0
# Of the blocks. Noise makes now the one rank late and now the other.
LEAST_BLOCKS_RATIO = 0.75
LEAST_BLOCKS_COUNT = 2
# Loaders that take longer by less than this are alike, as they are on a busy machine.
LEAST_BATCH_RATIO = 2.0
# What a rank is late by, others are seen to wait, by half of it at least.
WAITED_RATIO = 0.5


class Block(msgspec.Struct, frozen=True, array_like=True):
    """A mean step of some in a row: the seconds in loaders, of other work before the model, of all.

    ``fetches`` is how many batches were asked for in all of its steps. ``inside_s`` is what forward
    passes through the model and the loss take, ``after_s`` other work that is done after a backward pass.
    """

    loader_s: float
    own_s: float
    step_s: float
    fetches: int = 1
    inside_s: float = 0.0
    after_s: float = 0.0


class Place(StrEnum):
    """Where in a step a rank does what makes it late."""

    LOADER = "its DataLoader"
    BEFORE = "its own work before the model"
    INSIDE = "its forward pass up to the loss"
    AFTER = "its own work after the backward pass"


class Late(msgspec.Struct, frozen=True):
    """A rank that is late: the median of its blocks, as seconds and as a part of the step.

    ``usual_s`` is what the others take for the same, ``blocks`` the part of the blocks in which it
    was late. A loader that is not seen to be much slower than others' is not sure to be at fault.
    """

    rank: int
    late_s: float
    usual_s: float
    step_ratio: float
    blocks: float
    is_sure: bool = True

    @property
    def told(self) -> str:
        """Return it in words."""
        return (
            f"{1000 * (self.usual_s + self.late_s):.0f} ms a step, that of the others "
            f"{1000 * self.usual_s:.1f} ms: {self.step_ratio:.0%} of the step, in which they wait, in "
            f"{self.blocks:.0%} of the blocks of {BLOCK_STEPS} steps"
        )


Part = Callable[[Block], float]


def late_ranks(blocks: Mapping[int, Sequence[Block]], part: Part) -> list[Late]:
    """Return the ranks that ``part`` of the step makes late, while the others are seen to wait."""
    count = min((len(own) for own in blocks.values()), default=0)
    if count < LEAST_BLOCKS_COUNT or len(blocks) == 1:
        return []
    found = (_late(rank, blocks, part, count) for rank in sorted(blocks))
    return [each for each in found if each is not None]


def _late(rank: int, blocks: Mapping[int, Sequence[Block]], part: Part, count: int) -> Late | None:
    own = blocks[rank][:count]
    others = [[each[at] for other, each in blocks.items() if other != rank] for at in range(count)]
    usual_s = [median_low(part(each) for each in block) for block in others]
    late_s = [part(each) - usual for each, usual in zip(own, usual_s, strict=True)]
    waited_s = [median_low(each.step_s - part(each) for each in block) for block in others]
    late = [_is_late(*each, part) for each in zip(own, late_s, waited_s, strict=True)]
    is_unlike = median(map(part, own)) >= LEAST_TIMES_RATIO * median(usual_s)
    if sum(late) < LEAST_BLOCKS_RATIO * count or not is_unlike:
        return None
    ratios = [seconds / each.step_s for seconds, each in zip(late_s, own, strict=True)]
    return Late(rank, median(late_s), median(usual_s), median(ratios), sum(late) / count)


def _is_late(own: Block, late_s: float, waited_s: float, part: Part) -> bool:
    return (
        late_s >= max(LEAST_LATE_S, LEAST_STEP_RATIO * own.step_s)
        and waited_s - (own.step_s - part(own)) >= WAITED_RATIO * late_s
    )


def late_by_loader(
    blocks: Mapping[int, Sequence[Block]], batch_s: Mapping[int, float]
) -> list[Late]:
    """Return the ranks that their loaders make late.

    ``batch_s`` is what each loader needs for a batch when nobody waits for anybody, 0 where that is
    not known. Of loaders alike, one that is a little behind leaves the waiting to its rank: the
    others' workers have batches ready by then.
    """
    # Ranks that ask for no batch, as later stages of a pipeline, have no loader to compare.
    if not all(each.fetches for own in blocks.values() for each in own):
        return []
    late = late_ranks(blocks, lambda each: each.loader_s)
    return [msgspec.structs.replace(each, is_sure=_is_slower(each.rank, batch_s)) for each in late]


def _is_slower(rank: int, batch_s: Mapping[int, float]) -> bool:
    usual_s = median_low(seconds for other, seconds in batch_s.items() if other != rank)
    return batch_s[rank] > 0 and batch_s[rank] >= LEAST_BATCH_RATIO * usual_s


def late_by_own_work(blocks: Mapping[int, Sequence[Block]]) -> list[tuple[Place, Late]]:
    """Return the ranks that work of their own makes late, and in which place of the step.

    Before the model, a rank may have waited for the loader of another: then both come to the model
    together.
    """
    before = late_ranks(blocks, lambda each: each.own_s)
    found = [(Place.BEFORE, each) for each in before if _is_later(each, blocks)]
    found += [(Place.INSIDE, each) for each in late_ranks(blocks, lambda each: each.inside_s)]
    return found + [(Place.AFTER, each) for each in late_ranks(blocks, lambda each: each.after_s)]


def _is_later(late: Late, blocks: Mapping[int, Sequence[Block]]) -> bool:
    return _later_s(late.rank, blocks) >= WAITED_RATIO * late.late_s


def _later_s(rank: int, blocks: Mapping[int, Sequence[Block]]) -> float:
    """Return by how much a rank comes later to the model than the others, by the median."""
    before = {r: [each.loader_s + each.own_s for each in own] for r, own in blocks.items()}
    count = min(map(len, before.values()))
    usual_s = [median_low(before[r][at] for r in before if r != rank) for at in range(count)]
    return median(before[rank][at] - usual_s[at] for at in range(count))


def loader_share(blocks: Sequence[Block]) -> float:
    """Return the part of the step that is the loader's, by the median of the blocks."""
    return median(each.loader_s / each.step_s for each in blocks)


def in_blocks(steps: Sequence[Block]) -> tuple[Block, ...]:
    """Return the means of every few steps in a row; what is left over at the end is dropped."""
    starts = range(0, len(steps) - BLOCK_STEPS + 1, BLOCK_STEPS)
    return tuple(_mean(steps[at : at + BLOCK_STEPS]) for at in starts)


def _mean(steps: Sequence[Block]) -> Block:
    def mean(of: Part) -> float:
        return round(sum(of(each) for each in steps) / len(steps), 5)

    return Block(
        mean(lambda each: each.loader_s),
        mean(lambda each: each.own_s),
        mean(lambda each: each.step_s),
        sum(each.fetches for each in steps),
        mean(lambda each: each.inside_s),
        mean(lambda each: each.after_s),
    )
