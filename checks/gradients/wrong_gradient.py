"""DDP's gradient is not the gradient of one process on the joined batch.

Why it matters
    Data-parallel training promises the training of one process with a larger batch. Where
    the averaged gradient is another one, the model trains on something else than its loss
    says, and the result depends on the number of ranks.

What to do
    If the average itself is right, the loss weights ranks instead of samples: divide the
    sum over the batch by the global count and multiply by the world size. Otherwise look
    for communication hooks, and for hooks on parameters that change gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.sketch import Sketch, mean_projection, minority

# Rounding in a forward and backward pass grows with the length of the sums: some thousand
# terms in float32 (eps 1.2e-7) stay below 1e-4. A rank left out of eight changes it by 1e-1.
BOUND_RELATIVE = 1e-3
# In half precision each operation rounds at eps: allow for a dozen in a row.
BOUND_ROUNDING_UNITS = 16.0
# A gradient this small beside the whole is rounding noise, as a key's bias has.
NEGLIGIBLE_RELATIVE = 1e-4
# Every rank reads a slice of every other's batch: that is done for so many ranks.
COMPARED_RANKS = 64


class Facts(msgspec.Struct, frozen=True):
    """Gradients by parameter name.

    ``own`` is this rank's alone, in float64. ``reference`` is one process's on the joined
    batch: the norm of each gradient and DDP's distance to it, or why there is none.
    """

    parameters: str
    unit: float
    own: dict[str, Sketch]
    synced: dict[str, Sketch]
    reference: dict[str, tuple[float, float]] | str | None = None


def probe(ctx: Context) -> Facts:
    """Compute DDP's gradient, and this rank's own and the joined batch's in float64."""
    from ddpcheck.target import reference
    from ddpcheck.target.live import moved
    from ddpcheck.target.sketch import digest_of, sketch_all

    live = ctx.require_target()
    if live.ddp is None or ctx.store is None:
        raise Skip("the target is not wrapped in DistributedDataParallel")
    if ctx.world_size > COMPARED_RANKS:
        raise Skip(f"the reference takes every rank's samples: up to {COMPARED_RANKS} ranks")
    piece = reference.first_slice(live)
    placed = moved(piece, live.device)
    reference.rehearse_loss(live, placed)
    ctx.store.set(f"slice/{ctx.rank}", reference.to_text(piece))
    with reference.steady(live.ddp):
        synced = reference.gradient(live.ddp, live.loss, placed, of=live.module)
    texts = [ctx.store.get(f"slice/{rank}") for rank in range(ctx.world_size)]
    compared = reference.compare(live, piece, texts, ctx.rank, synced)
    return Facts(
        parameters=digest_of(list(sketch_all(live.module.named_parameters()).values())),
        unit=reference.rounding_unit(live, placed),
        own={} if isinstance(compared, str) else compared.own,
        synced=sketch_all(synced.items()),
        reference=compared if isinstance(compared, str) else compared.distances,
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the first parameter whose gradient is wrong.

    Silent when the parameters themselves differ: gradients/replicas-differ says so.
    """
    told = next((fact.reference for fact in facts.values() if fact.reference is not None), "")
    if len({fact.parameters for fact in facts.values()}) > 1:
        return []
    if isinstance(told, str):
        return [_unreferenced(told)]
    bound = max(BOUND_RELATIVE, BOUND_ROUNDING_UNITS * max(f.unit for f in facts.values()))
    whole = math.sqrt(sum(norm**2 for norm, _ in told.values()))
    if not whole or not math.isfinite(whole):
        return []  # one process has no gradient, or no number, either
    least = NEGLIGIBLE_RELATIVE * whole
    relative = {name: apart / max(norm, least) for name, (norm, apart) in told.items()}
    wrong = [name for name, value in relative.items() if not value <= bound]
    return [_finding(facts, wrong, relative[wrong[0]], bound) for _ in wrong[:1]]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how close the gradients are."""
    told = next((fact.reference for fact in facts.values() if fact.reference), "")
    if isinstance(told, str):
        return told
    whole = math.sqrt(sum(norm**2 for norm, _ in told.values()))
    apart = math.sqrt(sum(distance**2 for _, distance in told.values()))
    return f"DDP's gradient is {apart / whole if whole else 0:.0e} from one process in float64"


def _unreferenced(reason: str) -> Finding:
    return Finding(
        title="the gradient was not compared with one process",
        message=reason or "no rank told of the reference",
        fix="none is needed where the target is meant to be so",
        ranks=(),
        severity=Severity.INFO,
    )


def _finding(
    facts: Mapping[int, Facts], wrong: list[str], relative: float, bound: float
) -> Finding:
    name = wrong[0]
    averaged = _is_average(facts, name, bound)
    odd = minority({r: f.synced[name].digest for r, f in facts.items() if name in f.synced})
    return Finding(
        title="the loss weights ranks, not samples"
        if averaged
        else "DDP's gradient is not the average of the ranks' gradients",
        message=f"gradient of {name} is off by {relative:.1e}, limit {bound:.0e} "
        f"({len(wrong)} of {len(facts[min(facts)].synced)} parameters are)",
        fix="divide the summed loss by the global count of samples or tokens, times world size"
        if averaged
        else "remove communication and parameter hooks one by one; see 'ddpcheck explain'",
        ranks=odd or tuple(sorted(facts)),
        severity=Severity.WARNING if averaged else Severity.ERROR,
        confidence=Confidence.MEDIUM if averaged else Confidence.HIGH,
        evidence={"parameter": name, "relative_error": relative},
    )


def _is_average(facts: Mapping[int, Facts], name: str, bound: float) -> bool:
    own = [fact.own[name] for fact in facts.values() if name in fact.own]
    held = [fact.synced[name] for fact in facts.values() if name in fact.synced]
    if len(own) < len(facts) or len(held) < len(facts):
        return False
    if len(facts) <= max(facts):
        return True  # a rank told nothing: the others' average proves nothing
    mean = mean_projection(own)
    apart = math.dist(mean, held[0].projections) / math.sqrt(len(mean))
    scale = max(held[0].norm, *(each.norm for each in own))
    return math.isfinite(scale) and apart <= bound * scale
