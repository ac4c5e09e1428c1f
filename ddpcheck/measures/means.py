"""Losses that are means over targets, and how a mean of ranks' means weighs them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from ddpcheck.finding import Location
from ddpcheck.measures.words import listed

# How far a measured dispersion may lie above what is expected, in its standard deviations: 5 are
# passed by chance in one of 200 trainings at most (two ranks, one moment), far more rarely by more.
SURE_DEVIATIONS = 5.0
# What is left out at random, each by itself, makes counts disperse as Poisson's do, by 1, or by
# less; whole words or short runs of it by somewhat more.
CHANCE_RATIO = 2.0
# Words to be guessed come alone, or are a few tokens; an answer, or a padded text, is in one piece.
SCATTERED_RUN_COUNT = 3
# Of fp32, in which a count or its reciprocal is, with room for some operations.
WHOLE_RELATIVE = 1e-5


class Mean(msgspec.Struct, frozen=True, array_like=True):
    """One mean that was backpropagated: the ``number``th of a line in a step.

    Of its ``targets`` it is over ``counted``, in so many ``runs`` (0 where these were not counted);
    ``gradient`` came to it. ``by_hand``: the script divides by ``counted`` itself; ``targets`` are
    the values that it sums, 0 where that is not known. On its way to the average of the ranks the
    gradient was multiplied by ``factor`` more. ``line`` is that of the function, or of the backward
    pass where the mean is taken ``by_hand``, at the line ``made_at`` then, if that is known.
    """

    line: int
    step: int
    number: int
    targets: int
    counted: int
    runs: int
    gradient: float
    by_hand: bool = False
    factor: float = 1.0
    made_at: int | None = None

    @property
    def is_scattered(self) -> bool:
        """Return whether targets are ignored here and there, not as the rest of a text is.

        Or may be: which ones a script leaves out by itself is not seen.
        """
        if self.by_hand:
            return True
        return self.counted < self.targets and self.counted <= self.runs * SCATTERED_RUN_COUNT


def whole_count(number: float) -> int | None:
    """Return what a sum is divided by if it is a count, that is, a whole number from 1 on."""
    if not 1 - WHOLE_RELATIVE <= number < math.inf:
        return None
    return round(number) if abs(number - round(number)) <= WHOLE_RELATIVE * number else None


class Told(Protocol):
    """What a rank tells of its means: see ``checks.gradients.loss_denominators_differ.Facts``."""

    @property
    def means(self) -> Sequence[Mean]: ...  # noqa: D102
    @property
    def lines(self) -> Sequence[Location | None]: ...  # noqa: D102


# Of one mean of a line: those of all ranks that were taken at one time, time by time.
Moments = list[dict[int, Mean]]


def by_line(facts: Mapping[int, Told]) -> Iterator[tuple[Location | None, list[Moments]]]:
    """Yield for each line the moments of its means, where all ranks have them."""
    told = {
        rank: {(own.lines[m.line], m.number, m.step): m for m in own.means}
        for rank, own in facts.items()
    }
    common = [key for key in told[min(told)] if all(key in each for each in told.values())]
    for location in facts[min(facts)].lines:
        means: dict[int, Moments] = {}
        for key in (each for each in common if each[0] == location):
            moment = {rank: each[key] for rank, each in told.items()}
            means.setdefault(key[1], []).append(moment)
        yield location, list(means.values())


def misplaced_share(means: Sequence[Mean]) -> float:
    """Return how much of the ranks' weight lies elsewhere than in one mean over all, 0 to 1.

    In the average a rank's weight is the gradient that comes to its mean; in one mean over all
    targets it is its part of them. Where a script multiplies gradients later, by hooks say, it may
    be to make this right, or for another end: the better of both counts. Means over equal numbers
    are right as they are: what weighs them in another way, as mixup or a weight of domains, means to.
    """
    counted = [each.counted for each in means]
    if len(set(counted)) == 1:
        return 0.0
    plain = [each.gradient for each in means]
    multiplied = [each.gradient * each.factor for each in means]
    return min(_misplaced(plain, counted), _misplaced(multiplied, counted))


def _misplaced(weights: Sequence[float], counted: Sequence[int]) -> float:
    """Return the misplaced part; 0 where there are no targets, or no finite weights."""
    targets, weight = sum(counted), sum(map(abs, weights))
    if not targets or not 0.0 < weight < math.inf:
        return 0.0
    pairs = zip(weights, counted, strict=True)
    return sum(abs(abs(own) / weight - count / targets) for own, count in pairs) / 2


def in_words(means: Mapping[int, Mean]) -> str:
    """Return what ranks' means are over, such as "2 of 10 targets on rank 0, 8 of 10 on rank 1"."""
    told: list[str] = []
    for rank, mean in means.items():
        known = mean.targets and not mean.by_hand
        noun = (
            ""
            if told
            else f" target{'' if (mean.targets if known else mean.counted) == 1 else 's'}"
        )
        of = f" of {mean.targets}" if known else ""
        told.append(f"{mean.counted}{of}{noun} on rank {rank}")
    return listed(told)


def may_be_chance(counts: Sequence[Sequence[int]]) -> bool:
    """Return whether the counts, [moments, ranks], differ no more than by chance.

    Neither from one moment to the next, nor in their sums, that is, in favour of some rank.
    """
    sums = [sum(own) for own in zip(*counts, strict=True)]
    return _disperse_by_chance(counts) and _disperse_by_chance([sums])


def are_masked_at_random(moments: Sequence[Mapping[int, Mean]]) -> bool:
    """Return whether it may be chance alone how many targets are ignored, as for masked words."""
    are_scattered = any(mean.is_scattered for each in moments for mean in each.values())
    return are_scattered and may_be_chance([[m.counted for m in each.values()] for each in moments])


def _disperse_by_chance(counts: Sequence[Sequence[int]]) -> bool:
    """Judge by the index of dispersion.

    The squares of the distances from each moment's mean, over that mean, are chi-squared where each
    target is left out at random by itself.
    """
    squares = 0.0
    freedom = 0
    for own in counts:
        mean = sum(own) / len(own) if own else 0.0
        if mean:
            squares += sum((each - mean) ** 2 for each in own) / mean
            freedom += len(own) - 1
    if not freedom:
        return True
    limit = max(CHANCE_RATIO, 1.0 + SURE_DEVIATIONS * math.sqrt(2.0 / freedom))
    return squares / freedom <= limit
