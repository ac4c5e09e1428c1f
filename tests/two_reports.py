"""Reports to compare: like each other, but for what a test changes."""

from collections.abc import Mapping, Sequence
from typing import Any

from ddpcheck.finding import Finding, Severity
from ddpcheck.report import (
    CheckOutcome,
    CheckRecord,
    RankRecord,
    Report,
    Run,
    fold,
    verdict_of,
)

GOES = 20


def told(
    *,
    hosts: Mapping[int, str] | None = None,
    findings: Sequence[Finding] = (),
    checks: Mapping[str, CheckOutcome] | None = None,
    facts: Mapping[str, Mapping[int, Any]] | None = None,
    records: Mapping[int, RankRecord] | None = None,
    training: Mapping[str, Any] | None = None,
    **of_run: Any,
) -> Report:
    """Return a report of ranks 0 and 1 on host a, or of those that are given."""
    where = hosts or {0: "a", 1: "a"}
    ranks = {rank: RankRecord(rank=rank, host=host, device="cpu") for rank, host in where.items()}
    ranks.update(records or {})
    outcomes = checks or {"launch/fault": CheckOutcome.PASS}
    listed = [
        CheckRecord(id=each, stage=each.partition("/")[0], title="A fault", outcome=outcome)
        for each, outcome in outcomes.items()
    ]
    settings: dict[str, Any] = {
        "id": "ddpcheck-1",
        "command": "ddpcheck run",
        "launcher": "torchrun",
        "backend": "gloo",
        "profile": "standard",
        "requested_world_size": len(ranks),
        "world_size": len(ranks),
        "hosts": tuple(dict.fromkeys(where.values())),
        "started_at": "2026-11-27T22:10:03Z",
        "duration_s": 4.2,
        "versions": {"torch": "2.13.0"},
    }
    return Report(
        verdict=verdict_of(ranks.values(), listed, findings),
        run=Run(**{**settings, **of_run}),
        ranks=list(ranks.values()),
        checks=listed,
        findings=list(findings),
        recommendation={},
        facts={name: fold(values) for name, values in (facts or {}).items()},
        training=training,
    )


def found(severity: Severity = Severity.ERROR, **changes: Any) -> Finding:
    """Return a finding of a check of its own on rank 1."""
    settings: dict[str, Any] = {
        "id": "network/slow-link",
        "title": "a link is slow",
        "message": "rank 1: 0.1 GB/s",
        "fix": "look at it",
        "ranks": (1,),
    }
    settings |= {"severity": severity, **changes}
    return Finding(**settings)


def speeds(median_s: float, spread: float = 0.05, size_bytes: int = 1 << 21) -> dict[str, Any]:
    """Return the facts of a rank whose all-reduce took so long, its middle half so wide."""
    half = median_s * spread / 2
    return {
        "speeds": [
            {
                "kind": "all_reduce",
                "memory": "contiguous",
                "size_bytes": size_bytes,
                "goes": GOES,
                "least_s": median_s - 1.5 * half,
                "quarter_s": median_s - half,
                "median_s": median_s,
                "three_quarters_s": median_s + half,
                "p99_s": median_s * 3,
            }
        ]
    }
