"""DeepSpeed's batch sizes do not fit the number of ranks.

Why it matters
    DeepSpeed wants train_batch_size to be train_micro_batch_size_per_gpu times
    gradient_accumulation_steps times the number of ranks, and ends the script otherwise. Where it
    counts one rank though more were started, it was asked before it knew of them.

What to do
    Leave train_batch_size out of the configuration (or "auto" with transformers): DeepSpeed takes
    the product. Where it saw one rank, start the script with a launcher, and call
    deepspeed.init_distributed() before the configuration is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity

# DeepSpeed, runtime/config.py, _batch_assertion.
SAID = re.compile(
    r"train_batch_size is not equal to micro_batch_per_gpu \* gradient_acc_step \* world_size"
    r"\s+(\d+) != (\d+) \* (\d+) \* (\d+)"
)


class Sizes(msgspec.Struct, frozen=True):
    """What DeepSpeed compared."""

    train: int
    micro: int
    accumulation: int
    ranks: int


class Facts(msgspec.Struct, frozen=True):
    """What DeepSpeed refused, if it did, and how many ranks there are."""

    world_size: int
    sizes: Sizes | None = None
    location: Location | None = None


class Observer:
    """Hears what the script raised."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._facts = Facts(ctx.world_size)

    def on_raise(self, _step: int, error: BaseException) -> None:
        """Note the numbers, if it was that."""
        from ddpcheck.watch.callsite import users_line_of

        found = SAID.search(str(error))
        if found is not None:
            sizes = Sizes(*map(int, found.groups()))
            self._facts = Facts(self._ctx.world_size, sizes, users_line_of(error))

    def facts(self) -> Facts:
        """Return what was refused; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return self._facts


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks on which DeepSpeed refused its configuration."""
    bad = {r: (own.sizes, own) for r, own in sorted(facts.items()) if own.sizes is not None}
    if not bad:
        return []
    sizes, own = bad[min(bad)]
    product = sizes.micro * sizes.accumulation * own.world_size
    unseen = sizes.ranks != own.world_size
    return [
        Finding(
            title="DeepSpeed's batch sizes do not fit the number of ranks",
            message=f"train_batch_size is {sizes.train}, and not {sizes.micro} a GPU x "
            f"{sizes.accumulation} accumulated x {sizes.ranks} ranks"
            + (f"; it saw {sizes.ranks} of the {own.world_size} ranks" if unseen else ""),
            fix="call deepspeed.init_distributed() before the configuration is made"
            if unseen
            else f"set train_batch_size to {product} for {own.world_size} ranks, or leave it out",
            ranks=tuple(bad),
            severity=Severity.ERROR,
            confidence=Confidence.HIGH,
            location=own.location,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return what did not happen, if it did not."""
    return "" if judge(facts) else "DeepSpeed refused no configuration"
