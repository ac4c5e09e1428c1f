"""The summary of a training run, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ddpcheck.train.progress import short_count


def summary_lines(training: Mapping[str, Any], report: str) -> list[str]:
    """Return a few lines on the section ``training``; the last one holds the result."""
    first, last = training["loss"][0][1], training["final_loss"]
    setup = (
        f"{training['parameters']:,} parameters, {training['strategy']} on {_ranks(training)}, "
        f"{training['backend']}, {training['device']}, {training['precision']}, "
        f"global batch {training['global_batch']}"
    )
    result = (
        f"training: loss {first:.2f} -> {last:.2f} in {training['steps']} steps, "
        f"{short_count(training['tokens_per_s'])} tokens/s, "
        f"scaling efficiency {training['scaling_efficiency']:.0%}, "
        f"exposed communication {training['exposed_comm_share']:.0%} | {report}"
    )
    alone = f"one rank alone: {short_count(training['single_rank_tokens_per_s'])} tokens/s"
    return [setup, alone, f"checkpoint: {training['checkpoint']}", result]


def _ranks(training: Mapping[str, Any]) -> str:
    count = training["world_size"]
    return f"{count} rank" if count == 1 else f"{count} ranks"
