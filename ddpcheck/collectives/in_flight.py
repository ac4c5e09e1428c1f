"""Collectives of several groups under way at once, each on a stream of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
import torch.distributed as dist

from ddpcheck.check import Context
from ddpcheck.collectives.calls import Call, Works
from ddpcheck.collectives.cases import Case
from ddpcheck.collectives.comparison import Tally
from ddpcheck.collectives.kinds import BY_NAME
from ddpcheck.collectives.trial import Trial
from ddpcheck.measures.wrong_elements import Compared


def compared_at_once(ctx: Context, groups: int, rounds: Sequence[Sequence[Case]]) -> Compared:
    """Return what came of the cases of each round, all of them started before any is waited for.

    The n-th case of a round is one of the n-th group; there are as many groups, all of all ranks,
    beside the world's. They are left with the world's, at the end: NCCL takes half a second for it.
    """
    members = range(ctx.world_size)
    new = [cast("dist.ProcessGroup", dist.new_group(list(members))) for _ in range(groups)]
    made = [None, *new]
    tallies = [Tally(Trial(ctx.rank, members, ctx.device, group)) for group in made]
    lanes = [lane_of(ctx) for _ in made]
    for cases in rounds:
        carry_out(list(zip(tallies, lanes, cases, strict=True)))
    return _together(ctx.backend, tallies)


def carry_out(all_of: Sequence[tuple[Tally, torch.cuda.Stream | None, Case]]) -> None:
    """Start a case in each group, on its stream; then wait for all, and note what came of them."""
    started: list[tuple[Call, Works]] = []
    for tally, lane, case in all_of:
        with _on(lane):
            call = tally.trial.begin(case)
            started.append((call, BY_NAME[case.kind].call(call)))
    # The last one first: what waits in the order of the start would hide what depends on it.
    for (tally, lane, case), (call, works) in reversed(list(zip(all_of, started, strict=True))):
        with _on(lane):
            for work in works:
                work.wait()
            tally.note(case, tally.trial.compare(case, call))


def lane_of(ctx: Context) -> torch.cuda.Stream | None:
    """Return a new stream on this rank's GPU, or None without one."""
    return torch.cuda.Stream(ctx.device) if ctx.on_gpu else None


def _on(lane: torch.cuda.Stream | None) -> AbstractContextManager[object]:
    return torch.cuda.stream(lane) if lane is not None else nullcontext()


def _together(backend: str, tallies: Sequence[Tally]) -> Compared:
    counts = sum((Counter(tally.counts) for tally in tallies), Counter[str]())
    return Compared(
        backend=backend,
        cases=sum(tally.cases for tally in tallies),
        elements=sum(tally.trial.compared_elements for tally in tallies),
        wrong_cases=dict(counts),
        wrong=tuple(wrong for tally in tallies for wrong in tally.wrong.values()),
    )
