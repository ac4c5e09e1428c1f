"""BatchNorm normalizes with the statistics of one rank's batch.

Why it matters
    Each rank sees only its own part of the batch. With few samples a rank, the mean and
    variance are noise, and accuracy falls with the number of ranks. The running statistics
    of a saved model are those of rank 0 alone.

What to do
    On GPUs, convert before wrapping: SyncBatchNorm.convert_sync_batchnorm(model). Or use a
    larger batch a rank, or GroupNorm. SyncBatchNorm does not work on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Recommendation, Severity
from ddpcheck.measures.batchnorm import Layer, spread

if TYPE_CHECKING:
    from ddpcheck.target.live import LiveTarget
    from ddpcheck.watch.batchnorm import BatchNormWatch

# Error grows fast below this many samples a normalizer. Source: Wu and He, Group
# Normalization (2018), figure 1: about 1 % at 8, 3 % at 4, 8 % at 2 samples.
SMALL_BATCH_SAMPLES = 8
# Means of n independent values differ between ranks by about 1/sqrt(n) deviations. Beyond four
# times that, and a tenth of a deviation, the ranks see different distributions.
SPREAD_SIGMAS = 4.0
SPREAD_LIMIT_DEVIATIONS = 0.1


class Facts(msgspec.Struct, frozen=True):
    """The BatchNorm layers of the target, in model order."""

    device: str
    layers: tuple[Layer, ...]


class Observer:
    """Looks at what goes into each BatchNorm layer while training."""

    def __init__(self, ctx: Context) -> None:
        self._device = ctx.device
        self._watch: BatchNormWatch | None = None

    def on_built(self, live: LiveTarget) -> None:
        """Find and hook the layers."""
        from ddpcheck.watch.batchnorm import BatchNormWatch

        self._watch = BatchNormWatch(live.module)

    def facts(self) -> Facts:
        """Return the layers; raises Skip when there was no target to look at."""
        if self._watch is None:
            raise Skip("the target was not built")
        return Facts(self._device, self._watch.close())


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return what the evidence carries: an impossible conversion, noise, or drift."""
    first = facts[min(facts)]
    found: list[Finding] = []
    on_cpu = [layer.name for layer in first.layers if layer.synchronized and first.device == "cpu"]
    if on_cpu:
        found.append(_sync_on_cpu(on_cpu, tuple(sorted(facts))))
    custom = [layer for layer in first.layers if layer.custom]
    plain = [layer for layer in first.layers if not layer.synchronized and layer.samples]
    if plain and len(facts) > 1:
        found.append(_unsynchronized(facts, plain, custom))
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many layers there are, and how many are converted."""
    layers = facts[min(facts)].layers
    if not layers:
        return "the target has no BatchNorm layer"
    converted = sum(layer.synchronized for layer in layers)
    return f"{len(layers)} BatchNorm layers, {converted} of them SyncBatchNorm"


def recommend(facts: Mapping[int, Facts]) -> dict[str, Recommendation]:
    """Return whether to convert to SyncBatchNorm."""
    first = facts[min(facts)]
    if not first.layers:
        return {"sync_batchnorm": Recommendation(False, "the target has no BatchNorm layer")}
    samples = min(_samples(fact) for fact in facts.values())
    wanted = first.device != "cpu" and samples < SMALL_BATCH_SAMPLES
    reason = f"each rank's batch has {samples} samples a BatchNorm layer" + (
        "; SyncBatchNorm does not work on the CPU" if first.device == "cpu" else ""
    )
    return {"sync_batchnorm": Recommendation(wanted, reason)}


def _unsynchronized(
    facts: Mapping[int, Facts], plain: Sequence[Layer], custom: Sequence[Layer]
) -> Finding:
    samples = {rank: _samples(fact) for rank, fact in facts.items()}
    small = tuple(rank for rank in sorted(samples) if samples[rank] < SMALL_BATCH_SAMPLES)
    seen = [layer for fact in facts.values() for layer in fact.layers if layer.samples]
    spreads = {one.name: spread([own for own in seen if own.name == one.name]) for one in plain}
    widest = max(plain, key=lambda layer: spreads[layer.name])
    noise = SPREAD_SIGMAS / math.sqrt(widest.samples)
    drifts = spreads[widest.name] > max(noise, SPREAD_LIMIT_DEVIATIONS)
    return Finding(
        title=_title(bool(small), drifts),
        message=f"{len(plain)} layers, first {plain[0].name}; {min(samples.values())} samples a rank "
        f"(small below {SMALL_BATCH_SAMPLES}); means of {widest.name} differ by "
        f"{spreads[widest.name]:.2f} deviations between ranks (limit {noise:.2f})",
        fix=_fix(facts, custom),
        ranks=small or tuple(sorted(facts)),
        severity=Severity.WARNING if small or drifts else Severity.INFO,
        confidence=Confidence.HIGH if small else Confidence.MEDIUM,
        evidence={"layers": [layer.name for layer in plain], "custom": [c.kind for c in custom]},
    )


def _samples(fact: Facts) -> int:
    # A layer that is frozen, or that this step did not reach, saw no batch at all.
    return min((layer.samples for layer in fact.layers if layer.samples), default=0)


def _title(small: bool, drifts: bool) -> str:
    if small:
        return "BatchNorm sees too few samples a rank"
    return "BatchNorm statistics differ" if drifts else "BatchNorm is not synchronized"


def _fix(facts: Mapping[int, Facts], custom: Sequence[Layer]) -> str:
    if custom:
        return f"convert to SyncBatchNorm, but {custom[0].kind} by hand: it would be replaced"
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
