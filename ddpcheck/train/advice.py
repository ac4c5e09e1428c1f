"""What figures of how strategies scale speak for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from ddpcheck.measures.words import size
from ddpcheck.train.recipe import Recipe

# A bucket size has to be so much quicker than torch's own to be worth a word.
WORTH_RATIO = 1.05
# What communication may take of a step before larger steps are worth a word.
WAITING_SHARE = 0.1


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """How a strategy trains on so many ranks, all of them with the same global batch.

    options: the strategy's own. tokens_per_s: of the quickest round, beside the slowest.
    speed_up: tokens/s, as a multiple of one process's. efficiency: that, per rank.
    communication: the share of a step that a rank does not compute in, None where that cannot be
    had. state_bytes: weights, gradients and optimizer of each rank. peak_bytes: the most that
    each rank's GPU held, none on CPUs.
    """

    strategy: str
    mesh: str
    ranks: int
    tokens_per_s: float
    slowest_tokens_per_s: float
    speed_up: float
    efficiency: float
    communication: float | None
    state_bytes: tuple[int, ...]
    peak_bytes: tuple[int, ...]
    bucket_cap_mb: float | None = None
    options: Mapping[str, str] = {}


def recommended(rows: list[Row], asked: Recipe) -> dict[str, dict[str, Any]]:
    """Return what these figures speak for, each with its reason; nothing for one rank alone."""
    most = max(row.ranks for row in rows)
    usual = [row for row in rows if row.ranks == most and row.bucket_cap_mb == asked.bucket_cap_mb]
    if most == 1 or not usual:
        return {}
    best = max(usual, key=lambda row: row.tokens_per_s)
    advice: dict[str, dict[str, Any]] = {
        "strategy": {
            "value": best.strategy,
            "reason": f"the quickest on {most} ranks: {best.speed_up:.2f} times one process, with "
            f"{size(max(best.state_bytes))} of state on a rank",
        }
    }
    least = min(usual, key=lambda row: max(row.state_bytes))
    if max(least.state_bytes) < max(best.state_bytes):
        advice["strategy_for_memory"] = {
            "value": least.strategy,
            "reason": f"the least state on a rank, {size(max(least.state_bytes))}, at "
            f"{least.tokens_per_s / best.tokens_per_s:.0%} of the speed",
        }
    return {**advice, **_bucket(rows, most, asked), **_larger_steps(best)}


def _bucket(rows: list[Row], most: int, asked: Recipe) -> dict[str, dict[str, Any]]:
    buckets = {
        row.bucket_cap_mb: row for row in rows if row.ranks == most and row.strategy == "ddp"
    }
    usual = buckets.pop(asked.bucket_cap_mb, None)
    best = max(buckets.values(), key=lambda row: row.tokens_per_s, default=None)
    if (
        usual is None
        or best is None
        or best.slowest_tokens_per_s < WORTH_RATIO * usual.tokens_per_s
    ):
        return {}
    gained = best.tokens_per_s / usual.tokens_per_s - 1
    return {
        "bucket_cap_mb": {"value": best.bucket_cap_mb, "reason": f"ddp is {gained:.0%} quicker so"}
    }


def _larger_steps(best: Row) -> dict[str, dict[str, Any]]:
    waiting = best.communication or 0.0
    if waiting <= WAITING_SHARE:
        return {}
    # With so many passes of the same size in a step, communication is but once.
    passes = math.ceil(waiting / (1 - waiting) * (1 - WAITING_SHARE) / WAITING_SHARE)
    return {
        "accumulation": {
            "value": passes,
            "reason": f"{waiting:.0%} of a step of {best.strategy} is communication: with {passes} "
            f"passes of this size in a step it would be {WAITING_SHARE:.0%}",
        }
    }
