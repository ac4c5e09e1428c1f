"""bfloat16 autocast gives another loss, or is no faster.

Why it matters
    bfloat16 halves memory traffic and runs on the fast matrix units of current GPUs. Where
    the device emulates it, or the model loses too much precision, it is slower or wrong.

What to do
    Stay with float32 (or TF32) on this device, or keep the sensitive part of the model out
    of autocast. This is advice for ``ddpcheck train``, not a fault of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Profile
from ddpcheck.finding import Confidence, Finding, Recommendation, Severity

TIMED_STEPS = {Profile.QUICK: 1, Profile.STANDARD: 3, Profile.FULL: 10}
# bfloat16 keeps 8 bits: one rounding is 0.4 %; a mean over a batch stays well below 2 %.
LOSS_RELATIVE = 0.02
# Below this gain a change of precision is not worth its risk, nor above the noise of a few
# timed steps.
GAIN_RELATIVE = 0.10


class Facts(msgspec.Struct, frozen=True):
    """The loss, and the fastest forward and backward in wall seconds, in both precisions."""

    device: str
    loss: float
    loss_bf16: float | None
    step_s: float
    step_bf16_s: float

    @property
    def relative(self) -> float:
        """Return how far the bfloat16 loss is off; infinite when either is not a number."""
        if self.loss_bf16 is None or not math.isfinite(self.loss):
            return math.inf
        return abs(self.loss_bf16 - self.loss) / max(abs(self.loss), 1e-12)


def probe(ctx: Context) -> Facts:
    """Compute loss and gradients of one batch in float32 and under bfloat16 autocast."""
    from ddpcheck.target.live import moved
    from ddpcheck.target.precision import timed_bf16_loss, timed_loss
    from ddpcheck.target.reference import first_slice, rehearse_loss

    live = ctx.require_target()
    # Many CPUs emulate bfloat16: some samples are enough to see it.
    batch = next(live.batches()) if ctx.on_gpu else first_slice(live)
    steps = TIMED_STEPS[ctx.profile] if ctx.on_gpu else 1
    rehearse_loss(live, moved(batch, live.device))
    loss, step_s = timed_loss(live, batch, steps)
    loss_bf16, step_bf16_s = timed_bf16_loss(live, batch, steps)
    return Facts(live.device, loss, loss_bf16, step_s, step_bf16_s)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding when bfloat16 is wrong somewhere; that it is slow is no finding."""
    # A loss that is not a number in float32 says nothing of bfloat16.
    known = [rank for rank in sorted(facts) if math.isfinite(facts[rank].loss)]
    bad = tuple(rank for rank in known if facts[rank].relative > LOSS_RELATIVE)
    if not bad:
        return []
    fact = facts[bad[0]]
    off = "not a number" if fact.loss_bf16 is None else f"off by {fact.relative:.1%}"
    return [
        Finding(
            title="bfloat16 autocast gives another loss",
            message=f"rank {bad[0]}: loss {fact.loss:.4g} in float32; in bfloat16 it is {off}, "
            f"limit {LOSS_RELATIVE:.0%}",
            fix="train in float32, or keep the sensitive part out of autocast",
            ranks=bad,
            severity=Severity.INFO,
            confidence=Confidence.MEDIUM,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the worst loss and the gain of the slowest rank."""
    slow = max(facts.values(), key=lambda fact: fact.step_bf16_s)
    worst = max(fact.relative for fact in facts.values())
    return f"bf16: loss within {worst:.2%}, speed {slow.step_s / slow.step_bf16_s:.2f}x of fp32"


def recommend(facts: Mapping[int, Facts]) -> dict[str, Recommendation]:
    """Return bf16 only where it was right and faster on every rank."""
    worst = max(fact.relative for fact in facts.values())
    gain = min(fact.step_s / fact.step_bf16_s - 1 for fact in facts.values())
    if worst > LOSS_RELATIVE:
        return {"precision": Recommendation("fp32", f"bf16 loss is off by {worst:.1%}")}
    speed = f"bf16 runs at {1 + gain:.2f}x the speed of fp32 on the slowest rank"
    if gain < GAIN_RELATIVE:
        return {"precision": Recommendation("fp32", speed)}
    return {"precision": Recommendation("bf16", f"{speed}, loss within {worst:.2%}")}
