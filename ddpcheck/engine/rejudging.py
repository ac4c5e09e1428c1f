"""Today's judges on the facts of an old report."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ddpcheck.check import Check
from ddpcheck.configuration import Configuration
from ddpcheck.engine.chosen import configured
from ddpcheck.engine.entries import Measured
from ddpcheck.engine.judging import Judgement, judge_check
from ddpcheck.engine.outcomes import blame, blamed
from ddpcheck.engine.suppressing import unused_suppressions, without_suppressed
from ddpcheck.measures.words import counted
from ddpcheck.report import (
    CheckOutcome,
    CheckRecord,
    RankOutcome,
    RankRecord,
    Report,
    unfold,
    verdict_of,
)

KEPT = "not judged again"
# Words of ``judging``, in a reason that facts alone do not give.
CRASHED = "raised on rank "
JUDGES = "its judge raised"
DISREGARDED = "disregarded: "


def rejudged(report: Report, checks: Sequence[Check]) -> Report:
    """Return the report as today's judges see its facts: outcomes, findings and verdict.

    The run's own settings hold: severities, thresholds, and what they suppress.

    What cannot be judged again, and what measured nothing, stays as it was: records of checks that
    are no more, or whose facts have another shape today, say so.
    """
    asked = report.run.configuration
    known = {check.id: check for check in configured(checks, asked or Configuration())}
    host_of = {record.rank: record.host for record in report.ranks}
    judged = [
        without_suppressed(_again(record, report, known.get(record.id)), asked, host_of)
        for record in report.checks
    ]
    suppressed = [each for judgement in judged for each in judgement.suppressed]
    findings = sorted(
        (finding for judgement in judged for finding in judgement.findings),
        key=lambda finding: -finding.severity.weight,
    )
    records = [judgement.record for judgement in judged]
    was, now = {blame(each) for each in report.findings}, blamed(findings)
    ranks = [_rank(record, was, now.get(record.rank, "")) for record in report.ranks]
    advice = ChainMap(*[dict(judgement.recommendation) for judgement in judged])
    return replace(
        report,
        verdict=verdict_of(ranks, records, findings),
        ranks=ranks,
        checks=records,
        findings=findings,
        suppressed=suppressed,
        unused_suppressions=unused_suppressions(asked, suppressed, records, host_of),
        recommendation={**report.recommendation, **advice},
    )


def _again(record: CheckRecord, report: Report, check: Check | None) -> Judgement:
    facts = unfold(report.facts.get(record.id, ()))
    if not facts or record.reason.startswith(DISREGARDED):
        return _as_it_was(record, report)
    if check is None:
        return _as_it_was(record, report, "there is no such check any more")
    if left_out := report.facts_left_out.get(record.id):
        return _as_it_was(record, report, f"the facts of {counted(left_out, 'rank')} are not kept")
    if fault := _undecodable(check, facts):
        return _as_it_was(record, report, f"its facts are those of another version: {fault}")
    took_s = record.duration_s
    judged = judge_check(
        check, {rank: [Measured(check.id, fact, took_s)] for rank, fact in facts.items()}
    )
    return _with_crash(judged, record)


def _as_it_was(record: CheckRecord, report: Report, why: str = "") -> Judgement:
    reason = "\n".join(part for part in (f"{KEPT}: {why}" if why else "", record.reason) if part)
    return Judgement(
        record=replace(record, reason=reason),
        findings=[finding for finding in report.findings if finding.id == record.id],
        suppressed=[each for each in report.suppressed if each.finding.id == record.id],
    )


def _undecodable(check: Check, facts: Mapping[int, object]) -> str:
    try:
        for fact in facts.values():
            msgspec.convert(fact, check.facts_type, strict=False)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _with_crash(judged: Judgement, old: CheckRecord) -> Judgement:
    """Return the judgement with what the old one knew apart from facts: ranks that raised, or skipped."""
    told = old.reason
    if told.startswith(JUDGES):  # today's judge speaks for itself; what ranks raised stays
        told = told[told.find(CRASHED) :] if CRASHED in told else ""
    record = judged.record
    if not told:
        return judged
    reason = "\n".join(part for part in (record.reason, told) if part)
    crashed = CRASHED in old.reason and not judged.has_error
    outcome = CheckOutcome.ERROR if crashed else record.outcome
    return replace(judged, record=replace(record, reason=reason, outcome=outcome))


def _rank(record: RankRecord, was: Collection[str], now: str) -> RankRecord:
    """Return the rank's record: one that came through has failed where an error names it."""
    if record.outcome is not RankOutcome.OK and record.reason not in was:
        return record
    return replace(record, outcome=RankOutcome.FAILED if now else RankOutcome.OK, reason=now)
