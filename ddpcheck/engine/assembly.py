"""Make the report: from the leader's judgements, or from the files a crash left."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ddpcheck.catalogue import catalogue
from ddpcheck.engine.entries import Began, Ended, Entry, Present, Stuck, unpack
from ddpcheck.engine.judging import Judgement, judge_check, not_run
from ddpcheck.errors import ReportError
from ddpcheck.finding import Severity
from ddpcheck.report import (
    REPORT_NAME,
    LastSeen,
    RankOutcome,
    RankRecord,
    Report,
    Run,
    verdict_of,
)

RUN_NAME = "run.json"


def build_report(
    run: Run,
    judgements: Sequence[Judgement],
    entries: Mapping[int, Sequence[Entry]],
    gone: Mapping[int, RankRecord],
    device_of: Mapping[int, str],
) -> Report:
    """Return the report; ``gone`` holds a record for each rank that did not come through."""
    ranks = [
        gone.get(rank) or _came_through(rank, entries.get(rank, ()), judgements, device_of)
        for rank in sorted({*entries, *gone})
    ]
    findings = sorted(
        (finding for judgement in judgements for finding in judgement.findings),
        key=lambda finding: -finding.severity.weight,
    )
    checks = [judgement.record for judgement in judgements]
    return Report(
        verdict=verdict_of(ranks, checks, findings),
        run=run,
        ranks=ranks,
        checks=checks,
        findings=findings,
        recommendation=dict(ChainMap(*[dict(each.recommendation) for each in judgements])),
        facts={each.record.id: each.facts for each in judgements if each.facts},
    )


def lost(rank: int, told: Sequence[Entry], reason: str, device: str = "") -> RankRecord:
    """Return the record of a rank that is gone; ``stalled`` when its sentinel still spoke."""
    stuck = next((entry for entry in told if isinstance(entry, Stuck)), None)
    present = _presence(told)
    began = [entry.check for entry in told if isinstance(entry, Began)]
    check = stuck.check if stuck else began[-1] if began else ""
    return RankRecord(
        rank=rank,
        local_rank=present.local_rank if present else None,
        host=present.host if present else "",
        device=device,
        outcome=RankOutcome.STALLED if stuck else RankOutcome.LOST,
        reason=f"{reason} in {check}" if check else reason,
        last_seen=LastSeen(check, stuck.stack if stuck else "") if check else None,
    )


def assemble(run_dir: Path, reasons: Mapping[int, str]) -> Report:
    """Return the report that the rank files in ``run_dir`` allow; raises ReportError.

    ``reasons`` says of some ranks why they are gone; any other rank whose file does not
    reach the end of the last stage is gone too.
    """
    try:
        run = msgspec.json.decode((run_dir / RUN_NAME).read_bytes(), type=Run)
    except (OSError, msgspec.DecodeError) as error:
        raise ReportError(f"{run_dir} holds neither {REPORT_NAME} nor a started run") from error
    entries = _read_rank_files(run_dir)
    begun = [c for c in catalogue() if any(_mentions(c.id, told) for told in entries.values())]
    gone = {
        rank: lost(rank, entries.get(rank, ()), reasons.get(rank, "its file ends"))
        for rank in range(run.requested_world_size)
        if rank in reasons or not entries.get(rank)
    }
    judgements = [
        judge_check(check, entries) if check in begun else not_run(check, "the run ended before it")
        for check in catalogue()
    ]
    return build_report(run, judgements, entries, gone, {})


def _read_rank_files(run_dir: Path) -> dict[int, list[Entry]]:
    files = [f for f in (run_dir / "ranks").glob("*.jsonl") if re.fullmatch(r"\d+", f.stem)]
    return {int(file.stem): list(unpack(file.read_bytes())) for file in files}


def _mentions(check_id: str, told: Sequence[Entry]) -> bool:
    return any(
        getattr(entry, "check", None) == check_id and not isinstance(entry, Began) for entry in told
    )


def _presence(told: Sequence[Entry]) -> Present | None:
    return next((entry for entry in told if isinstance(entry, Present)), None)


def _came_through(
    rank: int,
    told: Sequence[Entry],
    judgements: Sequence[Judgement],
    device_of: Mapping[int, str],
) -> RankRecord:
    present = _presence(told)
    blamed = [
        f"{finding.id}: {finding.title}"
        for judgement in judgements
        for finding in judgement.findings
        if finding.severity is Severity.ERROR and rank in finding.ranks
    ]
    crashed = [f"{each.record.id} raised" for each in judgements if rank in each.crashed_ranks]
    reasons = [*crashed, *blamed]
    return RankRecord(
        rank=rank,
        local_rank=present.local_rank if present else None,
        host=present.host if present else "",
        device=device_of.get(rank, ""),
        outcome=RankOutcome.FAILED if reasons else RankOutcome.OK,
        reason=reasons[0] if reasons else "",
    )


def reached_end(told: Sequence[Entry], stage: str) -> bool:
    """Return whether these entries come to the end of ``stage``."""
    return any(isinstance(entry, Ended) and entry.stage == stage for entry in told)
