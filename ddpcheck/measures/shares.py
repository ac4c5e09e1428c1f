"""The shares that the ranks' DistributedSamplers take of one dataset, and whether they fit together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from ddpcheck.finding import Location


class Share(msgspec.Struct, frozen=True):
    """What a DistributedSampler shares out, by which options, and which share of it is the rank's.

    It was made at ``location``, as the one of this ``number`` there. ``epochs`` are those that it
    was told before the first iterations that were trained on.
    """

    location: Location | None
    number: int
    samples: int
    replicas: int
    rank: int
    shuffles: bool
    seed: int
    epochs: tuple[int, ...]

    @property
    def options(self) -> dict[str, tuple[int, ...]]:
        """Return what the share is cut by; drop_last is left out, as it only decides on its end."""
        always: dict[str, tuple[int, ...]] = {
            "num_replicas": (self.replicas,),
            "shuffle": (self.shuffles,),
        }
        order = {"seed": (self.seed,), "epoch": self.epochs}
        return always | (order if self.shuffles else {})


class Unlike(msgspec.Struct, frozen=True):
    """Ranks whose samplers differ in an option, and what it is on each of them."""

    option: str
    values: dict[int, int]
    samples: int
    location: Location | None


def unlike(shares: Mapping[int, Sequence[Share]]) -> list[Unlike]:
    """Return why samplers that were made at the same line overlap, once for each line."""
    found: dict[str, Unlike] = {}
    for each in _of_all(shares):
        line = str(each[min(each)].location)
        if line not in found and _are_parts(each.values()) and (why := _first_unlike(each)):
            found[line] = why
    return list(found.values())


def _of_all(shares: Mapping[int, Sequence[Share]]) -> Iterator[dict[int, Share]]:
    """Yield the samplers that each rank has trained by."""
    told = {rank: {(str(s.location), s.number): s for s in own} for rank, own in shares.items()}
    for key in next(iter(told.values()), {}):
        if all(key in own for own in told.values()):
            yield {rank: told[rank][key] for rank in sorted(told)}


def _are_parts(shares: Collection[Share]) -> bool:
    """Return whether each is to be another part of one dataset.

    Ranks with the same part may have datasets of their own, by host say, or parts of one sequence;
    and who takes the whole of a dataset draws from it by chance.
    """
    is_one = len({share.samples for share in shares}) == 1
    are_others = len({share.rank for share in shares}) == len(shares) > 1
    return is_one and are_others and all(share.replicas > 1 for share in shares)


def _first_unlike(shares: Mapping[int, Share]) -> Unlike | None:
    # An order comes of seed and epoch together.
    orders = zip(*([s.seed + epoch for epoch in s.epochs] for s in shares.values()), strict=False)
    is_one_order = all(len(set(each)) == 1 for each in orders)
    first = shares[min(shares)]
    for option in first.options:
        every = [share.options.get(option, ()) for share in shares.values()]
        for values in zip(*every, strict=False):
            if len(set(values)) > 1 and not (is_one_order and option in {"seed", "epoch"}):
                told = dict(zip(shares, values, strict=True))
                return Unlike(option, told, first.samples, first.location)
    return None
