"""The report: its format, its JSON both ways, and the verdict that follows from it."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from ddpcheck import jsontext
from ddpcheck.errors import ExitCode, ReportError
from ddpcheck.finding import Finding, Recommendation, Severity

FORMAT_VERSION = 1
REPORT_NAME = "report.json"
# What became of the ranks is judged in every run: that measures nothing of the machine.
JUDGED_ALWAYS = "ranks"


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
    """What was asked for and what ran; times are UTC, durations wall seconds."""

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


class FoldedFact(msgspec.Struct, frozen=True):
    """A fact and all ranks that measured exactly this."""

    ranks: Sequence[int]
    value: Any


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run has to tell."""

    format_version: int = FORMAT_VERSION
    verdict: Verdict
    run: Run
    ranks: Sequence[RankRecord]
    checks: Sequence[CheckRecord]
    findings: Sequence[Finding]
    recommendation: Mapping[str, Recommendation]
    facts: Mapping[str, Sequence[FoldedFact]]
    training: Mapping[str, Any] | None = None

    def count(self, severity: Severity) -> int:
        """Return how many findings have exactly this severity."""
        return sum(finding.severity is severity for finding in self.findings)


def fold(values: Mapping[int, Any]) -> list[FoldedFact]:
    """Return each distinct value once, with the ranks that have it, in rank order."""
    folded: dict[bytes, tuple[list[int], Any]] = {}
    for rank in sorted(values):
        plain = msgspec.to_builtins(values[rank], order="deterministic")
        folded.setdefault(jsontext.encode(plain), ([], plain))[0].append(rank)
    return [FoldedFact(tuple(ranks), value) for ranks, value in folded.values()]


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
    gone = {RankOutcome.STALLED, RankOutcome.LOST}
    checks = tuple(checks)
    outcomes = {check.outcome for check in checks if check.stage != JUDGED_ALWAYS}
    broken = any(check.outcome is CheckOutcome.ERROR for check in checks)
    worst = max((finding.severity.weight for finding in findings), default=0)
    if any(rank.outcome in gone for rank in ranks):
        return Verdict.INCOMPLETE
    if worst == Severity.ERROR.weight:
        return Verdict.FAIL
    failed = any(rank.outcome is RankOutcome.FAILED for rank in ranks)
    if failed or broken or outcomes == {CheckOutcome.SKIP}:
        return Verdict.INCOMPLETE
    return Verdict.WARN if worst == Severity.WARNING.weight else Verdict.PASS


def exit_code_of(report: Report, fail_on: Severity) -> ExitCode:
    """Return the exit code: 4 for ranks that are gone wins over 1 for findings over 3.

    4 also when every check was skipped: then nothing of what was asked for ran.
    """
    if any(rank.outcome in (RankOutcome.STALLED, RankOutcome.LOST) for rank in report.ranks):
        return ExitCode.INCOMPLETE
    if any(finding.severity.weight >= fail_on.weight for finding in report.findings):
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
    return jsontext.indented(report)


def from_json(text: bytes, source: str = "report") -> Report:
    """Return the report that ``text`` holds; raises ReportError naming ``source``."""
    try:
        version = jsontext.decode(text, _Versioned).format_version
        if version > FORMAT_VERSION:
            raise ReportError(
                f"{source} has format version {version}, newer than {FORMAT_VERSION}: "
                "read it with a newer ddpcheck"
            )
        return jsontext.decode(text, Report)
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
    """Write ``report.json`` in one piece and return its path; raises ReportError."""
    return _write_in_one_piece(run_dir / REPORT_NAME, to_json(report))


def add_training(path: Path, training: Mapping[str, Any]) -> None:
    """Add the section ``training`` to the report file at ``path``.

    Works on the plain JSON, so that fields this version does not know survive.
    """
    file = report_file(path)
    text = _read(file)
    from_json(text, str(file))
    plain = jsontext.decode(text, dict[str, Any])
    plain["training"] = msgspec.to_builtins(training)
    _write_in_one_piece(file, jsontext.indented(plain))


class _Versioned(msgspec.Struct):
    format_version: int


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ReportError(f"cannot read {file}: {error.strerror}; name a report.json") from error


def _write_in_one_piece(file: Path, text: bytes) -> Path:
    # Renaming is atomic: a reader, or a crash in between, never sees half a report.
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_bytes(text)
        draft.replace(file)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise ReportError(f"cannot write {file}: {error.strerror}; choose --report-dir") from error
    return file
