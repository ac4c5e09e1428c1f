"""How fast each two ranks exchange data, all pairs of a round at once."""

from __future__ import annotations

import time
from statistics import mean

import msgspec
import torch
import torch.distributed as dist

from ddpcheck.check import Context
from ddpcheck.collectives.agreement import Agreement, agreement
from ddpcheck.measures.pair_speed import Exchange, Pair, pair_gbps, slow_pairs
from ddpcheck.measures.rounds import partners

ID = "collectives/slow-link"
# So many of the slowest pairs are tried again, and so often: the best of all tries counts.
SECOND_TRIES_COUNT, MORE_TRIES_COUNT = 32, 3
# A pair that is so slow needs no more goes to be known.
LONGEST_S = 0.5


class Pairs:
    """One rank's part in the rounds; ``place`` is the same for the ranks of one host."""

    def __init__(self, ctx: Context, place: str, size_bytes: int, goes: int) -> None:
        self._agreed = agreement(ctx, ID)
        self._among: dict[int, Agreement] = {}
        self._rank, self._world_size, self._place = ctx.rank, ctx.world_size, place
        self._given = torch.ones(size_bytes // 4, device=ctx.device)
        self._taken = torch.empty_like(self._given)
        self._goes = goes

    def exchanges(self, least_ratio: float) -> tuple[Exchange, ...]:
        """Return the mean of some exchanges with each partner: as many bytes each way at once.

        In each round all pairs are busy. Pairs that are then slower than ``least_ratio`` of their
        like exchange again while all others rest: what was only the others' load is no fault.
        """
        found: dict[int, Exchange] = {}
        for partner in partners(self._rank, self._world_size):
            dist.barrier()  # who has waited for a partner would count its slowness
            if partner is not None:
                found[partner] = self._exchange_with(partner)
        for pair in self._slow_by_all(tuple(found.values()), least_ratio):
            dist.barrier()
            if self._rank in pair:
                partner = sum(pair) - self._rank
                again = [self._exchange_with(partner) for _ in range(MORE_TRIES_COUNT)]
                found[partner] = min(*again, found[partner], key=lambda each: each.took_s)
        return tuple(found.values())

    def _exchange_with(self, partner: int) -> Exchange:
        """Return the mean of all goes but the first, which only makes the connection.

        What a link loses or holds back shows in some goes, and not in the fastest one.
        """
        self._go(partner)
        first_s = self._go(partner)
        others_s = [self._go(partner) for _ in range(self._goes_left(first_s, partner))]
        return Exchange(partner, self._given.nbytes, round(mean([first_s, *others_s]), 7))

    def _goes_left(self, first_s: float, partner: int) -> int:
        """Return how many more goes the lower rank of the two has time for."""
        own = min(int(LONGEST_S / first_s), self._goes - 1)
        pair = sorted((self._rank, partner))
        among = self._among.setdefault(partner, self._agreed.part(f"{pair}"))
        return int(among.taken_over(lambda: str(own), decides=self._rank == pair[0]))

    def _go(self, partner: int) -> float:
        began = time.perf_counter()
        _exchange(self._given, self._taken, partner)
        if self._taken.is_cuda:
            torch.cuda.synchronize(self._taken.device)
        return time.perf_counter() - began

    def _slow_by_all(self, own: tuple[Exchange, ...], least_ratio: float) -> list[Pair]:
        """Return the slow pairs, the slowest first; rank 0 tells the others."""
        everyone = self._agreed.told(_text(Told(self._place, own)), self._rank, self._world_size)

        def decide() -> str:
            told = [msgspec.json.decode(text, type=Told) for text in everyone()]
            speeds = pair_gbps({rank: each.exchanges for rank, each in enumerate(told)})
            places = {rank: each.place for rank, each in enumerate(told)}
            slow = sorted(slow_pairs(speeds, places, least_ratio), key=lambda each: each.gbps)
            return _text([each.pair for each in slow][:SECOND_TRIES_COUNT])

        slowest = self._agreed.taken_over(decide, decides=self._rank == 0)
        return msgspec.json.decode(slowest, type=list[Pair])


class Told(msgspec.Struct, frozen=True):
    """What a rank tells of its exchanges."""

    place: str
    exchanges: tuple[Exchange, ...]


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _exchange(given: torch.Tensor, taken: torch.Tensor, partner: int) -> None:
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, given, partner), dist.P2POp(dist.irecv, taken, partner)]
    )
    for work in works:
        work.wait()
