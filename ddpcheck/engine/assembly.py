"""Make the report: from the leader's judgements, or from the files a crash left."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ddpcheck import jsontext
from ddpcheck.catalogue import catalogue
from ddpcheck.check import Check, Stage
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
    gone: Mapping[int, str],
    absent: Sequence[int] = (),
) -> Report:
    """Return the report from what each seat told.

    ``gone`` says of seats that did not come through why; ``absent`` are the ranks that
    never came, so that no seat is theirs.
    """
    ranks = [
        _lost(told, run.backend, gone[seat])
        if seat in gone
        else _came_through(seat, told, judgements, run.backend)
        for seat, told in entries.items()
    ]
    ranks += [
        RankRecord(rank=rank, outcome=RankOutcome.LOST, reason="never came") for rank in absent
    ]
    ranks.sort(key=lambda record: record.rank)
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


def assemble(
    run_dir: Path, reasons: Mapping[int, str], checks: Sequence[Check] | None = None
) -> Report:
    """Return the report that the rank files in ``run_dir`` allow; raises ReportError.

    ``checks`` are those that were asked for, all there are by default. ``reasons`` says of
    some ranks why they are gone; any other rank whose file does not
    reach the end of the last stage is gone too.
    """
    try:
        run = jsontext.decode((run_dir / RUN_NAME).read_bytes(), Run)
    except (OSError, msgspec.DecodeError) as error:
        raise ReportError(f"{run_dir} holds neither {REPORT_NAME} nor a started run") from error
    entries = {seat: told for seat, told in _read_rank_files(run_dir).items() if _presence(told)}
    stage = _last_stage(entries)
    behind = {seat for seat, told in entries.items() if not _has_ended(told, stage)}
    here = {present.rank for told in entries.values() if (present := _presence(told))}
    absent = sorted(set(range(run.requested_world_size)) - here)
    # Where nobody is missing and nobody is behind, all ended at once: there is no report.
    gone = {
        seat: reasons.get(seat, "its file ends")
        for seat in entries
        if seat in reasons or seat in behind or not (reasons or behind or absent)
    }
    return build_report(
        run,
        [_judgement(check, entries) for check in checks or catalogue()],
        entries,
        gone,
        absent=absent,
    )


def _judgement(check: Check, entries: Mapping[int, Sequence[Entry]]) -> Judgement:
    reached = any(
        getattr(entry, "check", None) == check.id for told in entries.values() for entry in told
    )
    return judge_check(check, entries) if reached else not_run(check, "the run ended before it")


def _read_rank_files(run_dir: Path) -> dict[int, list[Entry]]:
    files = [f for f in (run_dir / "ranks").glob("*.jsonl") if re.fullmatch(r"\d+", f.stem)]
    return {
        int(file.stem): list(unpack(file.read_bytes()))
        for file in sorted(files, key=lambda file: int(file.stem))
    }


def _last_stage(entries: Mapping[int, Sequence[Entry]]) -> str:
    """Return the stage that the farthest rank came to the end of."""
    known = {stage.value for stage in Stage}
    ended = [
        entry.stage
        for told in entries.values()
        for entry in told
        if isinstance(entry, Ended) and entry.stage in known
    ]
    return max(ended, key=lambda stage: Stage(stage).order, default="")


def _has_ended(told: Sequence[Entry], stage: str) -> bool:
    return any(isinstance(entry, Ended) and entry.stage == stage for entry in told)


def _presence(told: Sequence[Entry]) -> Present | None:
    return next((entry for entry in told if isinstance(entry, Present)), None)


def _record(told: Sequence[Entry], backend: str, outcome: RankOutcome, reason: str) -> RankRecord:
    present = _presence(told)
    if present is None:
        raise ReportError("a rank file does not begin with who its rank is")
    on_gpu = backend == "nccl" and present.gpus
    return RankRecord(
        rank=present.rank,
        local_rank=present.local_rank,
        host=present.host,
        device=f"cuda:{present.local_rank % present.gpus}" if on_gpu else "cpu",
        outcome=outcome,
        reason=reason,
    )


def _lost(told: Sequence[Entry], backend: str, why: str) -> RankRecord:
    """Return the record of a rank that is gone: stalled when its sentinel still spoke."""
    stuck = next((entry for entry in told if isinstance(entry, Stuck)), None)
    check = stuck.check if stuck else _last_check(told)
    outcome = RankOutcome.STALLED if stuck else RankOutcome.LOST
    record = _record(told, backend, outcome, f"{why} in {check}" if check else why)
    seen = LastSeen(check, stuck.stack if stuck else "") if check else None
    return msgspec.structs.replace(record, last_seen=seen)


def _last_check(told: Sequence[Entry]) -> str:
    return next((entry.check for entry in reversed(told) if isinstance(entry, Began)), "")


def _came_through(
    seat: int, told: Sequence[Entry], judgements: Sequence[Judgement], backend: str
) -> RankRecord:
    record = _record(told, backend, RankOutcome.OK, "")
    crashed = [f"{each.record.id} raised" for each in judgements if seat in each.crashed_ranks]
    blamed = [
        f"{finding.id}: {finding.title}"
        for judgement in judgements
        for finding in judgement.findings
        if finding.severity is Severity.ERROR and record.rank in finding.ranks
    ]
    reasons = [*crashed, *blamed]
    if not reasons:
        return record
    return msgspec.structs.replace(record, outcome=RankOutcome.FAILED, reason=reasons[0])
