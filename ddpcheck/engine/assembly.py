"""Make the report: from the leader's judgements, or from the files a crash left."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ddpcheck import jsontext
from ddpcheck.catalogue import catalogue
from ddpcheck.check import Check, Stage
from ddpcheck.configuration import Configuration
from ddpcheck.engine.chosen import configured
from ddpcheck.engine.entries import (
    Began,
    Ended,
    Entry,
    Measured,
    Testified,
    has_ended,
    presence_in,
    unpack_sealed,
)
from ddpcheck.engine.judging import Judgement, by_check, judge_check, judge_checks, without_facts
from ddpcheck.engine.outcomes import rank_records, testimony_on_files, testimony_told
from ddpcheck.engine.pauses import no_collection
from ddpcheck.engine.suppressing import unused_suppressions, without_suppressed
from ddpcheck.engine.thinning import thinned
from ddpcheck.errors import ReportError
from ddpcheck.measures.testimony import State, Testimony
from ddpcheck.report import REPORT_NAME, Report, Run, verdict_of
from ddpcheck.secrecy.redaction import redacted

RUN_NAME = "run.json"


class Ranks(NamedTuple):
    """What is known of the ranks: by seat, and those that never came, so that none is theirs."""

    entries: Mapping[int, Sequence[Entry]]
    testimonies: Mapping[int, Testimony]
    absent: Sequence[int] = ()
    absence: str = "never came"


def build_report(run: Run, judgements: Sequence[Judgement], ranks: Ranks) -> Report:
    """Return the report from what each seat told, and what became of it; without secrets.

    What the run's settings file suppresses is taken out of the findings here.
    """
    host_of = hosts_of(ranks.entries)
    judgements = [without_suppressed(each, run.configuration, host_of) for each in judgements]
    records = rank_records(ranks, judgements, run.backend)
    findings = sorted(
        (finding for judgement in judgements for finding in judgement.findings),
        key=lambda finding: -finding.severity.weight,
    )
    checks = [judgement.record for judgement in judgements]
    suppressed = [each for judgement in judgements for each in judgement.suppressed]
    kept = thinned({each.record.id: each.told for each in judgements})
    report = Report(
        verdict=verdict_of(records, checks, findings),
        run=run,
        ranks=records,
        checks=checks,
        findings=findings,
        suppressed=suppressed,
        unused_suppressions=unused_suppressions(run.configuration, suppressed, checks, host_of),
        recommendation=dict(ChainMap(*[dict(each.recommendation) for each in judgements])),
        facts=kept.facts,
        facts_left_out=kept.left_out,
    )
    # It is shown, too, and not only written.
    return redacted(report)


def hosts_of(entries: Mapping[int, Sequence[Entry]]) -> dict[int, str]:
    """Return the host of each seat that said which one it is on."""
    present = {seat: presence_in(told) for seat, told in entries.items()}
    return {seat: each.host for seat, each in present.items() if each is not None}


def judge_testimonies(
    checks: Sequence[Check], testimonies: Mapping[int, Testimony]
) -> list[Judgement]:
    """Return what the checks that measure nothing say of how the ranks came through."""
    return [
        judge_check(
            check,
            {
                seat: [Measured(check.id, msgspec.to_builtins(each), 0.0)]
                for seat, each in testimonies.items()
            },
        )
        for check in checks
        if check.is_inquest
    ]


def assemble(
    run_dir: Path, reasons: Mapping[int, str], checks: Sequence[Check] | None = None
) -> Report:
    """Return the report that the rank files in ``run_dir`` allow; raises ReportError.

    ``checks`` are those that were asked for, all there are by default. ``reasons`` says of
    some ranks how their process ended; any other rank whose file does not reach the end of the
    last stage is gone too, nobody knows how.
    """
    try:
        run = jsontext.decode((run_dir / RUN_NAME).read_bytes(), Run)
    except (OSError, msgspec.DecodeError) as error:
        raise ReportError(f"{run_dir} holds neither {REPORT_NAME} nor a started run") from error
    with no_collection():
        read = _read_rank_files(run_dir)
        entries = {seat: told for seat, told in read.items() if presence_in(told)}
        facts = by_check(entries)
        entries = {seat: without_facts(told) for seat, told in entries.items()}
        del read
    here = {present.rank for told in entries.values() if (present := presence_in(told))}
    absent = sorted(set(range(run.requested_world_size)) - here)
    testimonies = testimonies_on_files(run_dir, entries, reasons, all_came=not absent)
    if checks is None:
        checks = configured(catalogue(), run.configuration or Configuration())
    measuring = [check for check in checks if not check.is_inquest]
    judgements = judge_checks(measuring, facts, not_reached="the run ended before it")
    judgements += judge_testimonies(checks, testimonies)
    return build_report(run, judgements, Ranks(entries, testimonies, absent))


def testimonies_on_files(
    run_dir: Path,
    entries: Mapping[int, Sequence[Entry]],
    reasons: Mapping[int, str],
    *,
    all_came: bool,
) -> dict[int, Testimony]:
    """Return what the files of a run without a report say of each seat."""
    stage = _last_stage(entries)
    behind = {seat for seat, told in entries.items() if not has_ended(told, stage)}
    # Where nobody is missing and nobody is behind, all ended at once: there is no report.
    all_at_once = all_came and not behind and not reasons
    return {
        seat: _on_files(run_dir, seat, told, reasons.get(seat, ""))
        if seat in reasons or seat in behind or all_at_once
        else testimony_told(told, Testimony())
        for seat, told in entries.items()
    }


def _on_files(run_dir: Path, seat: int, told: Sequence[Entry], ended_by: str) -> Testimony:
    own = next((each.testimony for each in told if isinstance(each, Testified)), None)
    if own is not None and own.state is not State.ENDED:
        return own
    files = run_dir / "ranks"
    seen = testimony_on_files(
        files / f"{seat}.box", files / f"{seat}.stack", State.GONE, ended_by, 0
    )
    return msgspec.structs.replace(seen, check=seen.check or _last_check(told))


def _read_rank_files(run_dir: Path) -> dict[int, list[Entry]]:
    files = [f for f in (run_dir / "ranks").glob("*.jsonl") if re.fullmatch(r"\d+", f.stem)]
    seats = {int(file.stem): file for file in files}
    told = unpack_sealed(seats[seat].read_bytes() for seat in sorted(seats))
    return dict(zip(sorted(seats), told, strict=True))


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


def _last_check(told: Sequence[Entry]) -> str:
    return next((entry.check for entry in reversed(told) if isinstance(entry, Began)), "")
