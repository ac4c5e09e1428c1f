"""The report: its format, its JSON both ways, and the verdict that follows from it."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from ddpcheck import jsontext
from ddpcheck.change import Comparison
from ddpcheck.configuration import Configuration, Suppressed, Suppression
from ddpcheck.errors import ExitCode, ReportError
from ddpcheck.finding import Finding, Recommendation, Severity
from ddpcheck.secrecy.redaction import redacted

FORMAT_VERSION = 1
# Parts of the section ``training`` that are measured apart from the training itself.
TRAINING_PARTS = frozenset({"parity", "scaling"})
REPORT_NAME = "report.json"
# What became of the ranks is judged in every run: that measures nothing of the machine.
JUDGED_ALWAYS = "ranks"
# Of more facts of one check than this, equal ones in another order are not worth the search.
MOST_ORDERED_BYTES = 4_000_000


class Verdict(StrEnum):
    """The one word that a run ends with."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    INCOMPLETE = "incomplete"


class RankOutcome(StrEnum):
    """How one rank came through the run."""

    OK = "ok"
    FAILED = "failed"
    STALLED = "stalled"
    LOST = "lost"

    @property
    def is_gone(self) -> bool:
        """Return whether the rank did not come to the end of the run."""
        return self in (RankOutcome.STALLED, RankOutcome.LOST)


class CheckOutcome(StrEnum):
    """How one check ended; a skip is never a pass."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"
    ERROR = "error"


class LastSeen(msgspec.Struct, frozen=True):
    """What a rank was doing when it last told."""

    check: str
    stack: str = ""


class RankRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One rank that was asked for, whether it came or not."""

    rank: int
    local_rank: int | None = None
    host: str = ""
    device: str = ""
    outcome: RankOutcome = RankOutcome.OK
    reason: str = ""
    last_seen: LastSeen | None = None


class CheckRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One check that was asked for; ``duration_s`` is the slowest rank's."""

    id: str
    stage: str
    title: str
    outcome: CheckOutcome
    reason: str = ""
    summary: str = ""
    duration_s: float = 0.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for and what ran; times are UTC, durations wall seconds.

    ``configuration`` is what a settings file asked for, None where there was none.
    """

    id: str
    command: str
    launcher: str
    backend: str
    profile: str
    requested_world_size: int
    world_size: int
    hosts: Sequence[str]
    started_at: str
    duration_s: float
    versions: Mapping[str, str]
    target: str = ""
    configuration: Configuration | None = None


class FoldedFact(msgspec.Struct, frozen=True):
    """A fact and all ranks that measured exactly this."""

    ranks: Sequence[int]
    value: Any


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run has to tell.

    What is ``suppressed`` is none of the ``findings``, and does not count. ``facts_left_out``: of how
    many ranks a check's facts are not here, since those of thousands of ranks are larger than a
    report may be. ``changes`` is what changed against the baseline, where one was given. ``later``
    has the fields of a newer version, by name: they are written again as they were read.
    """

    format_version: int = FORMAT_VERSION
    verdict: Verdict
    run: Run
    ranks: Sequence[RankRecord]
    checks: Sequence[CheckRecord]
    findings: Sequence[Finding]
    suppressed: Sequence[Suppressed] = ()
    unused_suppressions: Sequence[Suppression] = ()
    recommendation: Mapping[str, Recommendation]
    facts: Mapping[str, Sequence[FoldedFact]]
    training: Mapping[str, Any] | None = None
    facts_left_out: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    changes: Comparison | msgspec.UnsetType = msgspec.UNSET
    later: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])

    def count(self, severity: Severity) -> int:
        """Return how many findings have exactly this severity."""
        return sum(finding.severity is severity for finding in self.findings)


def fold(values: Mapping[int, Any]) -> list[FoldedFact]:
    """Return each distinct value once, with the ranks that have it, in rank order.

    Values that came as JSON (bytes) stay so. Keys keep the order in which they were told, which is
    the model's where they are parameters; two values that differ in it alone are equal.
    """
    told = {rank: _as_told(values[rank]) for rank in sorted(values)}
    texts = {text for text, _ in told.values()}
    looks_closer = sum(map(len, texts)) <= MOST_ORDERED_BYTES
    keys = {text: jsontext.in_order(text) if looks_closer else text for text in texts}
    folded: dict[bytes, tuple[list[int], Any]] = {}
    for rank, (text, value) in told.items():
        folded.setdefault(keys[text], ([], value))[0].append(rank)
    return [FoldedFact(tuple(ranks), value) for ranks, value in folded.values()]


def _as_told(value: Any) -> tuple[bytes, Any]:
    """Return the value as JSON, and as it goes into the report."""
    if isinstance(value, bytes):
        return value, value
    plain = msgspec.to_builtins(value)
    return jsontext.encode(plain), plain


def unfold(folded: Iterable[FoldedFact]) -> dict[int, Any]:
    """Return the plain value of every rank: the inverse of ``fold``."""
    return {rank: each.value for each in folded for rank in each.ranks}


def verdict_of(
    ranks: Iterable[RankRecord], checks: Iterable[CheckRecord], findings: Iterable[Finding]
) -> Verdict:
    """Return the verdict; what did not run to its end is never a pass.

    Nor is a rank that failed, though no check has found out why.
    """
    ranks = tuple(ranks)
    checks = tuple(checks)
    outcomes = {check.outcome for check in checks if check.stage != JUDGED_ALWAYS}
    broken = any(check.outcome is CheckOutcome.ERROR for check in checks)
    worst = max((finding.severity.weight for finding in findings), default=0)
    if any(rank.outcome.is_gone for rank in ranks):
        return Verdict.INCOMPLETE
    if worst == Severity.ERROR.weight:
        return Verdict.FAIL
    failed = any(rank.outcome is RankOutcome.FAILED for rank in ranks)
    if failed or broken or outcomes == {CheckOutcome.SKIP}:
        return Verdict.INCOMPLETE
    return Verdict.WARN if worst == Severity.WARNING.weight else Verdict.PASS


def exit_code_of(report: Report, fail_on: Severity) -> ExitCode:
    """Return the exit code: 4 for ranks that are gone wins over 1 for findings over 3.

    4 also when every check was skipped: then nothing of what was asked for ran. Who gives a
    baseline asks whether the run is worse than that: 1, too.
    """
    if any(rank.outcome.is_gone for rank in report.ranks):
        return ExitCode.INCOMPLETE
    if any(finding.severity.weight >= fail_on.weight for finding in report.findings):
        return ExitCode.FINDINGS
    if report.changes and report.changes.is_worse:
        return ExitCode.FINDINGS
    failed = any(rank.outcome is RankOutcome.FAILED for rank in report.ranks)
    if failed or any(check.outcome is CheckOutcome.ERROR for check in report.checks):
        return ExitCode.INTERNAL
    measured = {check.outcome for check in report.checks if check.stage != JUDGED_ALWAYS}
    if measured == {CheckOutcome.SKIP}:
        return ExitCode.INCOMPLETE
    return ExitCode.OK


def to_json(report: Report) -> bytes:
    """Return the report as indented JSON that ends with a newline."""
    plain = msgspec.to_builtins(report)
    later = plain.pop("later")
    return jsontext.indented({**plain, **later})


def from_json(text: bytes, source: str = "report") -> Report:
    """Return the report that ``text`` holds; raises ReportError naming ``source``."""
    try:
        version = jsontext.decode(text, _Versioned).format_version
        if version > FORMAT_VERSION:
            raise ReportError(
                f"{source} has format version {version}, newer than {FORMAT_VERSION}: "
                "read it with a newer ddpcheck"
            )
        report = jsontext.decode(text, Report)
        return msgspec.structs.replace(report, later=_unknown_fields(text))
    except msgspec.DecodeError as error:
        raise ReportError(f"{source} is not a ddpcheck report: {error}") from error


def read_report(path: Path) -> Report:
    """Return the report at ``path``, a file or a run directory; raises ReportError."""
    return from_json(_read(report_file(path)), str(report_file(path)))


def facts_in(path: str) -> dict[str, dict[int, Any]]:
    """Return the facts of a report by check id and rank, or none for no path; raises ReportError."""
    if not path:
        return {}
    return {check: unfold(facts) for check, facts in read_report(Path(path)).facts.items()}


def report_file(path: Path) -> Path:
    """Return the report file that ``path``, a file or a run directory, stands for."""
    return path / REPORT_NAME if path.is_dir() else path


def write_report(report: Report, run_dir: Path) -> Path:
    """Write ``report.json`` in one piece, without secrets, and return its path; raises ReportError."""
    text = to_json(redacted(report))
    return write_in_one_piece(run_dir / REPORT_NAME, text, "choose --report-dir")


def add_training(path: Path, training: Mapping[str, Any]) -> None:
    """Add the section ``training`` to the report file at ``path``.

    Its parts (see ``TRAINING_PARTS``) come from commands of their own: what there is of them stays,
    and a part alone leaves the rest as it is.

    Works on the plain JSON, so that fields this version does not know survive.
    """
    file = report_file(path)
    text = _read(file)
    from_json(text, str(file))
    plain = jsontext.decode(text, dict[str, Any])
    there = plain.get("training") or {}
    part_alone = set(training) <= TRAINING_PARTS
    kept = {name: there[name] for name in there if part_alone or name in TRAINING_PARTS}
    plain["training"] = redacted({**kept, **msgspec.to_builtins(training)})
    write_in_one_piece(file, jsontext.indented(plain), "choose --report-dir")


def write_in_one_piece(file: Path, text: bytes, advice: str) -> Path:
    """Write a file that a reader sees whole or not at all, and return its path.

    What is no plain file, as /dev/stdout, is written to as it is. Raises ReportError, which ends
    with ``advice``.
    """
    plain = file.is_file() or not file.exists()
    place = file.resolve() if plain else file
    draft = place.with_name(f".{place.name}.{os.getpid()}") if plain else place
    try:
        draft.write_bytes(text)
        if plain:
            draft.replace(place)  # renaming is atomic, also for a crash in between
    except OSError as error:
        if plain:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        raise ReportError(f"cannot write {file}: {error.strerror}; {advice}") from error
    return file


def _unknown_fields(text: bytes) -> dict[str, Any]:
    parts = jsontext.decode(text, dict[str, msgspec.Raw])
    unknown = parts.keys() - set(Report.__struct_fields__)
    return {name: jsontext.decode(parts[name], object) for name in parts if name in unknown}


class _Versioned(msgspec.Struct):
    format_version: int


def no_report(path: str) -> ReportError:
    """Return what to raise where there is nothing at ``path``."""
    return ReportError(
        f"there is no {path}: run 'ddpcheck run' first, or name a report.json or a run directory"
    )


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise no_report(str(file)) from error
    except OSError as error:
        raise ReportError(f"cannot read {file}: {error.strerror}; name a report.json") from error
