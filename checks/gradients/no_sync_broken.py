"""DDP's no_sync does not skip the synchronization, or the next backward does not sync.

Why it matters
    Gradient accumulation runs all but the last backward pass in ``no_sync``. If it does
    not skip, every micro-step pays for an all-reduce; if the next backward does not sync
    what was accumulated, replicas drift apart without an error.

What to do
    Call forward inside ``no_sync`` too, not backward alone: forward decides. Check
    subclasses and wrappers of DistributedDataParallel for their own ``no_sync``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding, Severity
from ddpcheck.measures.sketch import Sketch, first_difference, relative_difference

# Inside no_sync the gradient is this rank's own, from the same operations as without DDP:
# equal but for the order of sums. Another rank's data changes it by far more.
OWN_RELATIVE = 1e-3
# A gradient this small beside the whole is rounding noise, such as that of a key's bias.
NEGLIGIBLE_RELATIVE = 1e-4
# After the synchronization all ranks hold the result of one reduction.
SYNCED_RELATIVE = 1e-3


class Facts(msgspec.Struct, frozen=True):
    """Gradients by parameter name: without DDP, inside no_sync, synced after it, and as usual."""

    local: dict[str, Sketch]
    inside: dict[str, Sketch]
    after: dict[str, Sketch]
    usual: dict[str, Sketch] = msgspec.field(default_factory=dict[str, Sketch])


def probe(ctx: Context) -> Facts:
    """Accumulate one backward inside ``no_sync`` and one after it."""
    from ddpcheck.target.live import moved
    from ddpcheck.target.reference import first_slice, gradient, rehearse_loss, repeatable, steady
    from ddpcheck.target.sketch import sketch_all

    live = ctx.require_target()
    if live.ddp is None:
        raise Skip("the target is not wrapped in DistributedDataParallel")
    batch = moved(first_slice(live), live.device)
    rehearse_loss(live, batch)
    with steady(live.ddp):
        with repeatable(live.device):
            usual = sketch_all(gradient(live.ddp, live.loss, batch, of=live.module).items())
        with repeatable(live.device), live.ddp.no_sync():
            live.loss(live.ddp, batch).backward()
        inside = sketch_all((name, p.grad) for name, p in live.module.named_parameters())
        live.loss(live.ddp, batch).backward()
        after = sketch_all((name, p.grad) for name, p in live.module.named_parameters())
        # Last, because DDP's forward makes the buffers of rank 0 everyone's.
        with repeatable(live.device):
            local = sketch_all(gradient(live.module, live.loss, batch).items())
    return Facts(local, inside, after, usual)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return findings for a synchronization inside, or a missing one after, ``no_sync``.

    Silent when no backward synchronizes: gradients/replicas-differ says so.
    """
    usual = first_difference({rank: fact.usual for rank, fact in facts.items()})
    if usual is not None and usual.relative > SYNCED_RELATIVE:
        return []
    return [*_synced_inside(facts), *_unsynced_after(facts)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return what was seen."""
    return f"no_sync skips and the next backward syncs on {len(facts)} ranks"


def _synced_inside(facts: Mapping[int, Facts]) -> list[Finding]:
    apart = {rank: _farthest(fact) for rank, fact in facts.items()}
    bad = tuple(rank for rank in sorted(apart) if apart[rank] > OWN_RELATIVE)
    if not bad:
        return []
    return [
        Finding(
            title="no_sync does not skip the synchronization",
            message=f"gradients inside no_sync are off from the rank's own by {max(apart.values()):.1e}, "
            f"limit {OWN_RELATIVE:.0e}",
            fix="see what overrides no_sync or require_backward_grad_sync in the wrapped model",
            ranks=bad,
            severity=Severity.WARNING,
        )
    ]


def _farthest(fact: Facts) -> float:
    """Return how far a gradient inside no_sync is from the rank's own, at most."""
    whole = math.hypot(*(own.norm for own in fact.local.values()))
    counted = {
        name: own for name, own in fact.local.items() if not own.norm < whole * NEGLIGIBLE_RELATIVE
    }
    apart = [
        relative_difference(own, fact.inside[name]) if name in fact.inside else 2.0
        for name, own in counted.items()
    ]
    return max(apart, default=0.0)


def _unsynced_after(facts: Mapping[int, Facts]) -> list[Finding]:
    found = first_difference({rank: fact.after for rank, fact in facts.items()})
    if found is None or found.relative <= SYNCED_RELATIVE:
        return []
    return [
        Finding(
            title="the backward after no_sync does not synchronize",
            message=f"gradient of {found.name} is the first of {found.differing} that differ; "
            f"relative difference {found.relative:.1e}, limit {SYNCED_RELATIVE:.0e}",
            fix="run the last forward and backward of an accumulation outside no_sync, and wrap "
            "after the last change to requires_grad",
            ranks=found.ranks,
            evidence={"parameter": found.name, "relative_difference": found.relative},
        )
    ]
