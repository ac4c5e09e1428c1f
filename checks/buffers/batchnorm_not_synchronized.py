"""BatchNorm normalizes with the statistics of one rank's batch.

Why it matters
    Each rank sees only its own part of the batch. With few samples a rank, mean and variance are
    noise, and accuracy falls with the number of ranks. A saved model has rank 0's statistics.

What to do
    On GPUs, convert before wrapping: SyncBatchNorm.convert_sync_batchnorm(model). Or use a
    larger batch a rank, or GroupNorm. SyncBatchNorm does not work on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Recommendation, Severity
from ddpcheck.measures.batchnorm import Layer, spread

if TYPE_CHECKING:
    from torch import nn

    from ddpcheck.watch.batchnorm import BatchNormWatch

# Error grows fast below this. Source: Wu and He, Group Normalization (2018), figure 1.
SMALL_BATCH_SAMPLES = 8
# Means of n independent values differ between ranks by about 1/sqrt(n) deviations. Beyond the
# usual range and two of those, and a tenth of a deviation, the ranks see different distributions.
SPREAD_SIGMAS = 2.0
SPREAD_LIMIT_DEVIATIONS = 0.1


class Facts(msgspec.Struct, frozen=True):
    """The BatchNorm layers of the target, in model order."""

    device: str
    layers: tuple[Layer, ...]


class Observer:
    """Looks at what goes into each BatchNorm layer while training."""

    def __init__(self, ctx: Context) -> None:
        self._device = ctx.device
        self._watches: list[BatchNormWatch] = []

    def on_placed(self, module: nn.Module) -> None:
        """Find and hook the layers: wrapping may refuse them."""
        from ddpcheck.watch.batchnorm import BatchNormWatch

        self._watches.append(BatchNormWatch(module))
        self._device = next((str(each.device) for each in module.parameters()), self._device)

    def facts(self) -> Facts:
        """Return the layers; raises Skip when there was no target to look at."""
        if not self._watches:
            raise Skip("the target was not built")
        return Facts(self._device, *[watch.close() for watch in self._watches][:1])


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return what the evidence carries: an impossible conversion, noise, or drift."""
    first = facts[min(facts)]
    on_cpu = [layer.name for layer in first.layers if layer.synchronized and first.device == "cpu"]
    plain = any(map(_plain, facts.values())) and len(facts) > 1
    return [
        *([_sync_on_cpu(on_cpu, tuple(sorted(facts)))] if on_cpu else []),
        *([_unsynchronized(facts)] if plain else []),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many layers there are, and how many are converted."""
    layers = facts[min(facts)].layers
    converted = sum(layer.synchronized for layer in layers)
    counted = f"{len(layers)} BatchNorm layers, {converted} of them SyncBatchNorm"
    return counted if layers else "the target has no BatchNorm layer"


def recommend(facts: Mapping[int, Facts]) -> dict[str, Recommendation]:
    """Return whether to convert to SyncBatchNorm."""
    first = facts[min(facts)]
    if not first.layers:
        return {"sync_batchnorm": Recommendation(False, "the target has no BatchNorm layer")}
    seen = [layer.samples for fact in facts.values() for layer in fact.layers if layer.samples]
    if len(facts) == 1 or not seen:
        return {"sync_batchnorm": Recommendation(False, "one rank, or only frozen layers")}
    wanted = first.device != "cpu" and min(seen) < SMALL_BATCH_SAMPLES
    but = "; SyncBatchNorm does not work on the CPU" if first.device == "cpu" else ""
    reason = f"each rank's batch has {min(seen)} samples a BatchNorm layer{but}"
    return {"sync_batchnorm": Recommendation(wanted, reason)}


def _plain(fact: Facts) -> list[Layer]:
    # A layer that is frozen, or that this rank's step did not reach, saw no batch at all.
    return [layer for layer in fact.layers if not layer.synchronized and layer.samples]


def _unsynchronized(facts: Mapping[int, Facts]) -> Finding:
    plain = {rank: layers for rank, fact in facts.items() if (layers := _plain(fact))}
    samples = {rank: min(layer.samples for layer in layers) for rank, layers in plain.items()}
    small = tuple(rank for rank in sorted(samples) if samples[rank] < SMALL_BATCH_SAMPLES)
    by_name: dict[str, list[Layer]] = {}
    for layer in chain.from_iterable(plain.values()):
        by_name.setdefault(layer.name, []).append(layer)
    spreads = {name: spread(ranks) for name, ranks in by_name.items()}
    widest = max(spreads, key=lambda name: spreads[name])
    limit = _limit(len(facts), min(layer.samples for layer in by_name[widest]))
    drifts = spreads[widest] > limit
    custom = [ranks[0].kind for ranks in by_name.values() if ranks[0].custom]
    return Finding(
        title="BatchNorm sees too few samples a rank"
        if small
        else f"BatchNorm {'statistics differ' if drifts else 'is not synchronized'}",
        message=f"{len(by_name)} layers, first {next(iter(by_name))}; {min(samples.values())} "
        f"samples a rank (small below {SMALL_BATCH_SAMPLES}); means of {widest} differ by "
        f"{spreads[widest]:.2f} deviations between ranks (limit {limit:.2f})",
        fix=_fix(facts, custom),
        ranks=small or tuple(sorted(facts)),
        severity=Severity.WARNING if small or drifts else Severity.INFO,
        confidence=Confidence.HIGH if small else Confidence.MEDIUM,
        evidence={"layers": list(by_name), "custom": custom},
    )


def _limit(ranks: int, samples: int) -> float:
    usual = 2 * math.sqrt(2 * math.log(ranks))  # the range of so many normal values
    return max(SPREAD_LIMIT_DEVIATIONS, (SPREAD_SIGMAS + usual) / math.sqrt(samples))


def _fix(facts: Mapping[int, Facts], custom: Sequence[str]) -> str:
    if custom:
        return f"convert to SyncBatchNorm, but {custom[0]} by hand: it would be replaced"
    if facts[min(facts)].device == "cpu":
        return "use a larger batch a rank or GroupNorm; on GPUs, convert to SyncBatchNorm"
    return "model = SyncBatchNorm.convert_sync_batchnorm(model) before wrapping"


def _sync_on_cpu(names: Sequence[str], ranks: tuple[int, ...]) -> Finding:
    return Finding(
        title="SyncBatchNorm does not work on the CPU",
        message=f"{len(names)} layers are SyncBatchNorm, first {names[0]}, and the ranks use the CPU",
        fix="convert only where the device is a GPU",
        ranks=ranks,
    )
