"""The parts that sample reports are made of."""

from collections.abc import Mapping
from typing import Any

from ddpcheck.finding import Finding
from ddpcheck.report import CheckOutcome, CheckRecord, RankRecord, Report, Run, verdict_of

STAGES = ("launch", "environment", "network", "devices", "collectives", "rehearsal")


def run(*, world_size: int, hosts: tuple[str, ...], requested: int = 0, **changes: Any) -> Run:
    settings: dict[str, Any] = {
        "id": "ddpcheck-20261127-221003-3f2a",
        "command": "ddpcheck run",
        "launcher": "torchrun",
        "backend": "gloo",
        "profile": "standard",
        "started_at": "2026-11-27T22:10:03Z",
        "duration_s": 4.2,
        "versions": {"ddpcheck": "0.1.0", "python": "3.11.2", "torch": "2.13.0"},
    }
    settings.update(world_size=world_size, requested_world_size=requested or world_size)
    settings.update(changes, hosts=hosts)
    return Run(**settings)


def check(check_id: str, stage: str = "", outcome: str = "pass", **changes: Any) -> CheckRecord:
    settings: dict[str, Any] = {
        "stage": stage or check_id.partition("/")[0],
        "title": "A fault",
        "duration_s": 0.0 if outcome == "skip" else 0.12,
    }
    settings.update(changes)
    return CheckRecord(id=check_id, outcome=CheckOutcome(outcome), **settings)


def ranks(world_size: int, per_host: int, kind: str = "cuda") -> dict[int, RankRecord]:
    return {
        rank: RankRecord(
            rank=rank,
            local_rank=rank % per_host,
            host=f"node{rank // per_host}",
            device=kind if kind == "cpu" else f"{kind}:{rank % per_host}",
        )
        for rank in range(world_size)
    }


def report(
    of_run: Run,
    records: Mapping[int, RankRecord],
    checks: list[CheckRecord],
    findings: list[Finding] | None = None,
    **changes: Any,
) -> Report:
    listed = list(records.values())
    settings: dict[str, Any] = {"recommendation": {}, "facts": {}, "findings": findings or []}
    settings.update(changes)
    verdict = verdict_of(listed, checks, findings or [])
    return Report(verdict=verdict, run=of_run, ranks=listed, checks=checks, **settings)
