"""What a settings file suppresses: it leaves the findings, with its reason, and counts no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ddpcheck.check import Stage
from ddpcheck.configuration import Configuration, Suppressed, Suppression, is_meant
from ddpcheck.engine.judging import Judgement
from ddpcheck.finding import Finding, Severity
from ddpcheck.report import CheckOutcome, CheckRecord

RAN = (CheckOutcome.PASS, CheckOutcome.FAIL)


def without_suppressed(
    judgement: Judgement, asked: Configuration | None, host_of: Mapping[int, str]
) -> Judgement:
    """Return the judgement with what ``asked`` suppresses apart from its findings.

    What became of the ranks is never suppressed: a rank that is lost is no matter of opinion.
    """
    if asked is None or not asked.suppress or judgement.record.stage == Stage.RANKS.value:
        return judgement
    kept: list[Finding] = []
    apart = list(judgement.suppressed)
    for finding in judgement.findings:
        reasons = [each.reason for each in asked.suppress if each.covers(finding, host_of)]
        if reasons:
            apart.append(Suppressed(finding, reasons[0]))
        else:
            kept.append(finding)
    if len(apart) == len(judgement.suppressed):
        return judgement
    outcome = judgement.record.outcome
    if outcome is CheckOutcome.FAIL:  # one that broke down stays broken, whatever it found
        outcome = _outcome(kept, crashed=bool(judgement.crashed_ranks))
    return msgspec.structs.replace(
        judgement,
        record=msgspec.structs.replace(judgement.record, outcome=outcome),
        findings=tuple(kept),
        suppressed=tuple(apart),
    )


def _outcome(findings: Sequence[Finding], *, crashed: bool) -> CheckOutcome:
    worst = max((each.severity.weight for each in findings), default=0)
    if crashed:
        return CheckOutcome.FAIL if worst == Severity.ERROR.weight else CheckOutcome.ERROR
    return CheckOutcome.FAIL if worst else CheckOutcome.PASS


def unused_suppressions(
    asked: Configuration | None,
    suppressed: Sequence[Suppressed],
    checks: Sequence[CheckRecord],
    host_of: Mapping[int, str],
) -> list[Suppression]:
    """Return those that suppressed nothing, though all that they are about took part.

    One of a check that did not run, or of a host that is not among these, may be needed again.
    """
    return [
        each
        for each in (asked.suppress if asked else ())
        if not any(each.covers(of.finding, host_of) for of in suppressed)
        and each.could_apply(host_of)
        and _all_ran(each, checks)
    ]


def _all_ran(suppression: Suppression, checks: Iterable[CheckRecord]) -> bool:
    about = [check for check in checks if is_meant(suppression.check, check.id)]
    return bool(about) and all(check.outcome in RAN for check in about)
