"""From what ranks told to what it means: merge their entries and call the judges."""

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
    judgement = _judged(check, measured) if measured else _without_facts(check, skipped, crashed)
    if measured and skipped:
        judgement = _noting(
            judgement, "; ".join(f"rank {r}: {e.reason}" for r, e in skipped.items())
        )
    return _with_crashes(judgement, crashed)


def not_run(check: Check, reason: str) -> Judgement:
    """Return the judgement on a check whose stage was not reached."""
    return Judgement(record=_record(check, CheckOutcome.SKIP, reason))


def disregarded(judgement: Judgement, reason: str) -> Judgement:
    """Return the judgement without what its facts seem to say; they themselves are kept."""
    record = _noting(judgement, f"disregarded: {reason}").record
    return Judgement(
        record=msgspec.structs.replace(record, outcome=CheckOutcome.SKIP, summary=""),
        facts=judgement.facts,
    )


def _of_type(about: Mapping[int, Sequence[Entry]], kind: type[Any]) -> dict[int, Any]:
    return {
        rank: entry for rank, told in sorted(about.items()) for entry in told if type(entry) is kind
    }


def _judged(check: Check, measured: Mapping[int, Measured]) -> Judgement:
    facts: dict[int, Facts] = {}
    findings: list[Finding] = []
    recommendation: dict[str, Recommendation] = {}
    summary = fault = ""
    try:
        for rank, each in measured.items():
            facts[rank] = msgspec.convert(each.facts, check.facts_type, strict=False)
        findings = check.judge(facts)
        summary = check.summarize(facts)
        recommendation = check.recommend(facts)
    except Exception as error:
        fault = f"its judge raised {_in_one_line(error)}\n{traceback.format_exc(limit=-3)}"
    return Judgement(
        record=msgspec.structs.replace(
            _record(check, _outcome(findings, fault), fault),
            summary=summary,
            duration_s=round(max(each.duration_s for each in measured.values()), 4),
        ),
        findings=findings,
        recommendation=recommendation,
        facts=fold({rank: each.facts for rank, each in measured.items()}),
    )


def _outcome(findings: Sequence[Finding], fault: str) -> CheckOutcome:
    if fault:
        return CheckOutcome.ERROR
    bad = any(finding.severity is not Severity.INFO for finding in findings)
    return CheckOutcome.FAIL if bad else CheckOutcome.PASS


def _without_facts(
    check: Check, skipped: Mapping[int, Skipped], crashed: Mapping[int, Crashed]
) -> Judgement:
    reasons = dict.fromkeys(entry.reason for entry in skipped.values())
    return not_run(check, "; ".join(reasons) or ("" if crashed else "no rank came to it"))


def _noting(judgement: Judgement, reason: str) -> Judgement:
    whole = "\n".join(part for part in (judgement.record.reason, reason) if part)
    record = msgspec.structs.replace(judgement.record, reason=whole)
    return msgspec.structs.replace(judgement, record=record)


def _with_crashes(judgement: Judgement, crashed: Mapping[int, Crashed]) -> Judgement:
    if not crashed:
        return judgement
    noted = _noting(judgement, _crash_reason(crashed))
    outcome = CheckOutcome.FAIL if judgement.has_error else CheckOutcome.ERROR
    record = msgspec.structs.replace(noted.record, outcome=outcome)
    return msgspec.structs.replace(noted, record=record, crashed_ranks=tuple(crashed))


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
