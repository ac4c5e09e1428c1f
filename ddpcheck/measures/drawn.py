"""Which ranks draw the same random numbers for different samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ddpcheck.measures.peers import grouped

# Of the process, and those that a dataset keeps.
KINDS = ("torch", "random", "numpy", "the dataset's own")
# A few fetches may agree before ranks come apart, or after they were seeded for something else.
LEAST_FETCHES_COUNT = 3
# A draw for the whole batch, such as a size that all ranks are to share, is no augmentation.
LEAST_DRAWS_COUNT = 2


class Drawn(msgspec.Struct, frozen=True, array_like=True):
    """What a generator gave for one batch: how many draws, beginning with which state.

    ``place`` is the iteration over a loader, the worker, and the number of the fetch in it.
    """

    kind: str
    place: tuple[int, int, int]
    state: str
    indices: str
    draws: int
    samples: int

    @property
    def is_per_sample(self) -> bool:
        """Return whether each sample may have had a draw of its own."""
        return self.draws >= max(LEAST_DRAWS_COUNT, self.samples)


class Alike(msgspec.Struct, frozen=True):
    """Ranks that drew alike, from which generators, in how many fetches of other samples."""

    ranks: tuple[int, ...]
    kinds: tuple[str, ...]
    fetches: int
    is_per_sample: bool


def alike(draws: Mapping[int, Sequence[Drawn]]) -> list[Alike]:
    """Return the ranks whose generators had the same states while they fetched other samples."""
    found: dict[tuple[int, ...], list[Alike]] = {}
    for kind in KINDS:
        for each in _of_kind(kind, draws):
            found.setdefault(each.ranks, []).append(each)
    return [_joined(each) for each in found.values()]


def _of_kind(kind: str, draws: Mapping[int, Sequence[Drawn]]) -> Iterable[Alike]:
    tables = {
        rank: {each.place: each for each in own if each.kind == kind} for rank, own in draws.items()
    }
    places = sorted(set.intersection(*(set(table) for table in tables.values())))
    states = {rank: tuple(table[at].state for at in places) for rank, table in tables.items()}
    for own, ranks in grouped(states).items():
        fetched = [[tables[rank][at] for rank in ranks] for at in places]
        others = [each for each in fetched if len({one.indices for one in each}) > 1]
        # A dataset that seeds a generator itself, for every sample, begins with the same state.
        if min(len(others), len(set(own))) >= LEAST_FETCHES_COUNT:
            is_per_sample = all(one.is_per_sample for each in others for one in each)
            yield Alike(tuple(ranks), (kind,), len(others), is_per_sample)


def _joined(found: Sequence[Alike]) -> Alike:
    return Alike(
        found[0].ranks,
        tuple(kind for each in found for kind in each.kinds),
        max(each.fetches for each in found),
        any(each.is_per_sample for each in found),
    )
