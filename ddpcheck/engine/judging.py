"""From what ranks told to what it means: merge their entries and call the judges."""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ddpcheck import jsontext
from ddpcheck.check import Check, Facts
from ddpcheck.configuration import Suppressed
from ddpcheck.engine.entries import Began, Crashed, Entry, Measured, Skipped
from ddpcheck.engine.pauses import no_collection
from ddpcheck.engine.thinning import Told, fitting
from ddpcheck.finding import Finding, Recommendation, Severity
from ddpcheck.report import CheckOutcome, CheckRecord, FoldedFact, fold

# Of more ranks with one fault, some are as good as all.
MOST_NAMED = 16
LONG_LIST = 64
LONG_TEXT_BYTES = 2 * LONG_LIST


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """One check's record, findings, recommendations and folded facts.

    ``essential_ranks`` are those whose facts stay where a report has no room for all, and
    ``rank_count`` is how many measured it.
    """

    record: CheckRecord
    findings: Sequence[Finding] = ()
    recommendation: Mapping[str, Recommendation] = msgspec.field(
        default_factory=dict[str, Recommendation]
    )
    facts: Sequence[FoldedFact] = ()
    crashed_ranks: Sequence[int] = ()
    suppressed: Sequence[Suppressed] = ()
    essential_ranks: Sequence[int] = ()
    rank_count: int = 0

    @property
    def told(self) -> Told:
        """Return what there is to choose from where the report has no room for all facts."""
        return Told(self.facts, self.essential_ranks, self.rank_count)

    @property
    def has_error(self) -> bool:
        """Return whether the check found an error."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)


class About(NamedTuple):
    """What ranks told of one check: the last of each kind, in the order of the ranks."""

    measured: dict[int, Measured]
    skipped: dict[int, Skipped]
    crashed: dict[int, Crashed]


def judge_check(check: Check, entries: Mapping[int, Iterable[Entry]]) -> Judgement:
    """Return the judgement on one check from the entries of all ranks that told."""
    return judge_checks([check], by_check(entries))[0]


def judge_checks(
    checks: Iterable[Check], told: dict[str, About], *, not_reached: str = ""
) -> list[Judgement]:
    """Return the judgement on each check; what was told of it is taken out of ``told``.

    A check of which nobody told is one that was not run, if ``not_reached`` says why.
    """
    with no_collection():
        return [
            not_run(check, not_reached)
            if not_reached and check.id not in told
            else _judgement(check, told.pop(check.id, About({}, {}, {})))
            for check in checks
        ]


def by_check(entries: Mapping[int, Iterable[Entry]]) -> dict[str, About]:
    """Return what ranks told of each check that one of them came to, in one pass over all."""
    told: defaultdict[str, About] = defaultdict(lambda: About({}, {}, {}))
    for rank in sorted(entries):
        for entry in entries[rank]:
            # The most frequent first: thousands of ranks have a million entries.
            if isinstance(entry, Began):
                _ = told[entry.check]
            elif isinstance(entry, Skipped):
                told[entry.check].skipped[rank] = entry
            elif isinstance(entry, Measured):
                told[entry.check].measured[rank] = entry
            elif isinstance(entry, Crashed):
                told[entry.check].crashed[rank] = entry
    return dict(told)


def without_facts(told: Iterable[Entry]) -> list[Entry]:
    """Return what a rank told but for its facts: once judged, they only take memory."""
    return [entry for entry in told if not isinstance(entry, Measured)]


def _judgement(check: Check, about: About) -> Judgement:
    measured, skipped, crashed = about
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
        essential_ranks=judgement.essential_ranks,
        rank_count=judgement.rank_count,
    )


def _judged(check: Check, measured: Mapping[int, Measured]) -> Judgement:
    facts: dict[int, Facts] = {}
    findings: list[Finding] = []
    recommendation: dict[str, Recommendation] = {}
    summary = fault = ""
    essential: set[int] = set()
    try:
        facts = _read(check, measured)
        findings = check.judge(facts)
        summary = check.summarize(facts)
        recommendation = check.recommend(facts)
        essential = check.representatives(facts)
    except Exception as error:
        fault = f"its judge raised {_in_one_line(error)}\n{traceback.format_exc(limit=-3)}"
    odd = essential | {min(measured)} | _odd(findings, len(measured))
    return Judgement(
        record=msgspec.structs.replace(
            _record(check, _outcome(findings, fault), fault),
            summary=summary,
            duration_s=round(max(each.duration_s for each in measured.values()), 4),
        ),
        findings=findings,
        recommendation=recommendation,
        facts=fitting(fold({rank: each.facts for rank, each in measured.items()}), odd),
        essential_ranks=sorted(odd),
        rank_count=len(measured),
    )


def _odd(findings: Iterable[Finding], rank_count: int) -> set[int]:
    """Return the ranks that findings name, but for findings that are of about all ranks."""
    telling = [finding.ranks for finding in findings if 2 * len(finding.ranks) < rank_count]
    return {rank for ranks in telling for rank in ranks[:MOST_NAMED]}


def _read(check: Check, measured: Mapping[int, Measured]) -> dict[int, Facts]:
    """Return the facts of each rank; what came as the same JSON is read once, and shared."""
    seen: dict[bytes, Facts] = {}
    lists: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    facts: dict[int, Facts] = {}
    for rank, each in measured.items():
        if not isinstance(each.facts, bytes):
            facts[rank] = msgspec.convert(each.facts, check.facts_type, strict=False)
            continue
        own = seen.get(each.facts)
        if own is None:
            own = jsontext.decode(each.facts, check.facts_type)
            own = _with_shared(own, lists) if len(each.facts) > LONG_TEXT_BYTES else own
            seen[each.facts] = own
        facts[rank] = own
    return facts


def _with_shared(own: Facts, lists: dict[tuple[Any, ...], tuple[Any, ...]]) -> Facts:
    """Return the facts with long lists that other ranks have told, too, in memory once.

    Of 4096 ranks that each name the ranks of their group, that is half a gigabyte.
    """
    shared = {
        name: lists.setdefault(value, value)
        for name in own.__struct_fields__
        if isinstance(value := getattr(own, name), tuple)
        and len(value) > LONG_LIST
        and isinstance(value[0], int)
    }
    return msgspec.structs.replace(own, **shared) if shared else own


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
