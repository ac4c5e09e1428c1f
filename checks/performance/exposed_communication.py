"""Training waits for communication that compute does not hide.

Why it matters
    A step is as long as its compute, plus the communication that no compute runs beside.
    That exposed part is what more GPUs, or faster ones, do not buy back.

What to do
    Raise the batch per rank or accumulate gradients; tune bucket_cap_mb; see that the
    transport is the one you paid for (the collectives stage). Where data wait is the
    larger part, add DataLoader workers first.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Profile, Skip
from ddpcheck.finding import Confidence, Finding, Recommendation, Severity
from ddpcheck.measures.split import Kernels, StepSplit, shown_exposed

MEASURED_STEPS = {Profile.QUICK: 2, Profile.STANDARD: 4, Profile.FULL: 30}
# Parts that miss more of the step than this were measured wrongly.
PARTS_TOLERANCE_RELATIVE = 0.05
# On steps this short, the clock and the marks themselves are a visible share.
SHORTEST_STEP_S = 0.002
# Half of the step waiting for the network is worth a word; how much is right depends on the
# model and the machine, so it is never more than that.
EXPOSED_LIMIT_RATIO = 0.5
# A loader that costs this share of the step should run in workers of its own.
DATA_LIMIT_RATIO = 0.05
# DDP's default bucket, and the number of buckets that lets all but the last one overlap.
DEFAULT_BUCKET_BYTES = 25 << 20
WANTED_BUCKETS = 4


class Facts(msgspec.Struct, frozen=True):
    """One rank's step, and what DDP sends in it."""

    split: StepSplit
    kernels: Kernels | None
    gradient_bytes: int
    workers: int
    built_in: bool


def probe(ctx: Context) -> Facts:
    """Measure the split of the target's step on this rank."""
    from ddpcheck.target.kernels import measure_kernels
    from ddpcheck.target.step_split import SplitParts, measure_split

    live = ctx.require_target()
    if live.ddp is None:
        raise Skip("the target is not wrapped in DistributedDataParallel")
    parts = SplitParts(live.ddp, live.loss, live.optimizer, live.device)
    gradients = [p for p in live.module.parameters() if p.requires_grad]
    steps = MEASURED_STEPS[ctx.profile]
    return Facts(
        split=measure_split(parts, live.batches(), steps),
        kernels=measure_kernels(parts, live.batches(), steps),
        gradient_bytes=sum(p.numel() * p.element_size() for p in gradients),
        workers=getattr(live.loader, "num_workers", 0),
        built_in=live.is_built_in,
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for a split that does not add up, and one for much exposed waiting.

    The built-in targets are too small to hide anything: their share says nothing of a
    user's training.
    """
    splits = {rank: fact.split for rank, fact in facts.items()}
    missed = {
        rank: abs(1 - split.parts_s / split.step_s)
        for rank, split in splits.items()
        if split.step_s > SHORTEST_STEP_S
    }
    off = tuple(rank for rank in sorted(missed) if missed[rank] > PARTS_TOLERANCE_RELATIVE)
    users = {r: shown_exposed(f.split, f.kernels) for r, f in facts.items() if not f.built_in}
    high = tuple(rank for rank in sorted(users) if users[rank] > EXPOSED_LIMIT_RATIO)
    return [
        *([_does_not_add_up(off, max(missed.values()))] if off else []),
        *([_exposed(high, max(users.values()))] if high else []),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the split of the slowest rank's step."""
    slow = max(facts.values(), key=lambda fact: fact.split.step_s)
    shown = ", ".join(f"{name} {share:.0%}" for name, share in slow.split.shares().items())
    return f"step {slow.split.step_s * 1e3:.1f} ms: {shown}; {_hidden(slow)}"


def recommend(facts: Mapping[int, Facts]) -> dict[str, Recommendation]:
    """Return bucket size, bucket views and loader workers for what was measured."""
    slow = max(facts.values(), key=lambda fact: fact.split.step_s)
    mega = slow.gradient_bytes / (1 << 20)
    wait = slow.split.shares()["data"]
    workers = max(slow.workers, 2) if wait > DATA_LIMIT_RATIO else slow.workers
    return {
        "bucket_cap_mb": _bucket(slow.gradient_bytes),
        "gradient_as_bucket_view": Recommendation(
            True, f"saves a copy of the gradients, {mega:.1f} MiB a rank; they were right with it"
        ),
        "dataloader_workers": Recommendation(
            workers, f"data wait was {wait:.1%} of the step with {slow.workers} workers"
        ),
    }


def _hidden(fact: Facts) -> str:
    if fact.kernels is None:
        return f"{fact.split.overlapped_share:.0%} of comm hidden"
    comm_ms, exposed_ms = fact.kernels.comm_s * 1e3, fact.kernels.exposed_comm_s * 1e3
    return f"NCCL kernels {comm_ms:.2f} ms, {exposed_ms:.2f} ms with no compute beside"


def _bucket(gradient_bytes: int) -> Recommendation:
    if gradient_bytes >= WANTED_BUCKETS * DEFAULT_BUCKET_BYTES:
        return Recommendation(25, f"{gradient_bytes >> 20} MiB of gradients fill several buckets")
    cap = max(1, gradient_bytes // WANTED_BUCKETS >> 20)
    reason = f"{gradient_bytes / (1 << 20):.1f} MiB of gradients would fit one bucket of 25"
    return Recommendation(cap, f"{reason}, and nothing would overlap")


def _does_not_add_up(ranks: tuple[int, ...], missed: float) -> Finding:
    return Finding(
        title="the parts of the step do not add up to the step",
        message=f"they miss {missed:.0%} of it, limit {PARTS_TOLERANCE_RELATIVE:.0%}",
        fix="measure again on an idle machine; if it stays, report it as a bug of ddpcheck",
        ranks=ranks,
        # It tells of the measurement, which a busy machine interrupts, and of no fault.
        severity=Severity.INFO,
        confidence=Confidence.MEDIUM,
    )


def _exposed(ranks: tuple[int, ...], share: float) -> Finding:
    return Finding(
        title="much of the step waits for communication",
        message=f"{share:.0%} of the step, limit {EXPOSED_LIMIT_RATIO:.0%}",
        fix="raise the batch per rank, accumulate gradients, or tune bucket_cap_mb",
        ranks=ranks,
        severity=Severity.INFO,
        confidence=Confidence.MEDIUM,
    )
