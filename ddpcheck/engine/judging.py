"""From what ranks told to what it means: merge entries, call judges, name the missing."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ddpcheck.check import Check, Facts
from ddpcheck.engine.entries import Crashed, Entry, Measured, Skipped
from ddpcheck.finding import Finding, Recommendation, Severity
from ddpcheck.report import CheckOutcome, CheckRecord, FoldedFact, fold


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """One check's record, findings, recommendations and folded facts."""

    record: CheckRecord
    findings: Sequence[Finding] = ()
    recommendation: Mapping[str, Recommendation] = msgspec.field(
        default_factory=dict[str, Recommendation]
    )
    facts: Sequence[FoldedFact] = ()
    crashed_ranks: Sequence[int] = ()

    @property
    def has_error(self) -> bool:
        """Return whether the check found an error."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)


def judge_check(check: Check, entries: Mapping[int, Iterable[Entry]]) -> Judgement:
    """Return the judgement on one check from the entries of all ranks that told."""
    about = {
        rank: [entry for entry in told if getattr(entry, "check", None) == check.id]
        for rank, told in entries.items()
    }
    crashed = _of_type(about, Crashed)
    measured = _of_type(about, Measured)
    skipped = _of_type(about, Skipped)
    if not measured:
        return _without_facts(check, crashed, skipped)
    try:
        judgement = _judged(check, measured)
    except Exception as error:
        reason = f"its judge raised {_in_one_line(error)}"
        traceback_text = traceback.format_exc(limit=-3)
        return Judgement(record=_record(check, CheckOutcome.ERROR, f"{reason}\n{traceback_text}"))
    return _with_crashes(judgement, crashed)


def not_run(check: Check, reason: str) -> Judgement:
    """Return the judgement on a check whose stage was not reached."""
    return Judgement(record=_record(check, CheckOutcome.SKIP, reason))


def _of_type(about: Mapping[int, Sequence[Entry]], kind: type[Any]) -> dict[int, Any]:
    return {
        rank: entry for rank, told in sorted(about.items()) for entry in told if type(entry) is kind
    }


def _judged(check: Check, measured: Mapping[int, Measured]) -> Judgement:
    facts: dict[int, Facts] = {
        rank: msgspec.json.decode(each.facts, type=check.facts_type)
        for rank, each in measured.items()
    }
    findings = check.judge(facts)
    bad = any(finding.severity is not Severity.INFO for finding in findings)
    record = _record(check, CheckOutcome.FAIL if bad else CheckOutcome.PASS)
    return Judgement(
        record=msgspec.structs.replace(
            record,
            summary=check.summarize(facts),
            duration_s=round(max(each.duration_s for each in measured.values()), 4),
        ),
        findings=findings,
        recommendation=check.recommend(facts),
        facts=fold(facts),
    )


def _without_facts(
    check: Check, crashed: Mapping[int, Crashed], skipped: Mapping[int, Skipped]
) -> Judgement:
    if crashed:
        record = _record(check, CheckOutcome.ERROR, _crash_reason(crashed))
        return Judgement(record=record, crashed_ranks=tuple(crashed))
    reasons = dict.fromkeys(entry.reason for entry in skipped.values())
    return not_run(check, "; ".join(reasons) or "no rank came to it")


def _with_crashes(judgement: Judgement, crashed: Mapping[int, Crashed]) -> Judgement:
    if not crashed:
        return judgement
    outcome = CheckOutcome.FAIL if judgement.has_error else CheckOutcome.ERROR
    record = msgspec.structs.replace(
        judgement.record, outcome=outcome, reason=_crash_reason(crashed)
    )
    return msgspec.structs.replace(judgement, record=record, crashed_ranks=tuple(crashed))


def _crash_reason(crashed: Mapping[int, Crashed]) -> str:
    ranks = ", ".join(str(rank) for rank in crashed)
    first = next(iter(crashed.values()))
    return f"raised on rank {ranks}: {first.error}\n{first.stack}".rstrip()


def _record(check: Check, outcome: CheckOutcome, reason: str = "") -> CheckRecord:
    return CheckRecord(
        id=check.id, stage=check.stage.value, title=check.title, outcome=outcome, reason=reason
    )


def _in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
