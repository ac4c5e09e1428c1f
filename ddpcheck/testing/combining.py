"""What became of a test on each rank, as the reports of one test."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from ddpcheck.measures.testimony import is_victims
from ddpcheck.measures.words import ranks_told

PHASES = ("setup", "call", "teardown")
NO_PDB = (
    "--pdb cannot enter a test on ranks: they are processes of their own, without your terminal. "
    "Show more with --showlocals, or run the body on one rank, without the marker"
)
TWICE = (
    "the ranks have a process group already: take it from the fixture ddpcheck_world, or mark the "
    "test with @pytest.mark.ranks(n, group=False) to let the code make its own"
)


@dataclass
class Outcome:
    """What became of a test on ``size`` ranks, by rank.

    reports: of its phases. called: how the body ended. done: what the test left changed, or ''.
    ended: what ended the process. unable: why it could not run the test. hang: who waits for whom.
    """

    size: int
    reports: dict[str, dict[int, pytest.TestReport]] = field(
        default_factory=lambda: {phase: {} for phase in PHASES}
    )
    called: dict[int, str] = field(default_factory=dict[int, str])
    done: dict[int, str] = field(default_factory=dict[int, str])
    ended: dict[int, str] = field(default_factory=dict[int, str])
    last_words: dict[int, str] = field(default_factory=dict[int, str])
    unable: dict[int, str] = field(default_factory=dict[int, str])
    hang: str = ""

    def take(self, rank: int, report: pytest.TestReport) -> None:
        """Take down the report of a phase."""
        if report.when in self.reports:
            self.reports[report.when][rank] = report

    def is_over(self, rank: int) -> bool:
        """Return whether nothing more will be heard of a rank."""
        return rank in self.done or rank in self.ended or rank in self.unable

    def has_failed(self) -> bool:
        """Return whether the others may wait for a rank in vain."""
        return bool(self.ended or self.unable) or "failed" in self.called.values()

    def is_poisoned(self) -> bool:
        """Return whether the next test is better off with fresh ranks."""
        failed = any(each.failed for of in self.reports.values() for each in of.values())
        return bool(self.hang or self.ended or self.unable or failed or any(self.done.values()))


def refused(item: pytest.Item, reason: str) -> list[pytest.TestReport]:
    """Return the reports of a test that could not be begun."""
    return [_made(item, "setup", "failed", reason), _made(item, "teardown", "passed", None)]


def combined(item: pytest.Item, outcome: Outcome) -> list[pytest.TestReport]:
    """Return the reports of setup, call and teardown, one each, for all ranks."""
    reports = [
        _of_all(item, phase, outcome)
        for phase in PHASES
        if outcome.reports[phase] or phase != "call"
    ]
    if not any(report.failed for report in reports) and (lost := _lost(outcome)):
        _fail(reports, item, lost)
    elif lost := _lost(outcome):
        next(report for report in reports if report.failed).sections.append(("ranks", lost))
    for report in reports:
        if report.failed and item.config.option.usepdb:
            report.sections.append(("ranks", NO_PDB))
    return reports


def _fail(reports: list[pytest.TestReport], item: pytest.Item, reason: str) -> None:
    """Let the call fail, which no rank has told of."""
    call = _made(item, "call", "failed", reason)
    call.sections = [each for report in reports for each in report.sections]
    at = next((n for n, report in enumerate(reports) if report.when == "call"), 1)
    reports[at : at + (len(reports) > at and reports[at].when == "call")] = [call]


def _lost(outcome: Outcome) -> str:
    """Return what became of ranks that did not come to the end, or ''."""
    told = [f"rank {rank} could not run the test: {why}" for rank, why in outcome.unable.items()]
    for rank, ended_by in outcome.ended.items():
        words = outcome.last_words.get(rank, "")
        told.append(f"rank {rank} was ended by {ended_by}" + (f":\n{words}" if words else ""))
    return "\n".join([*told, *filter(None, [outcome.hang])])


def _of_all(item: pytest.Item, phase: str, outcome: Outcome) -> pytest.TestReport:
    own = outcome.reports[phase]
    if not own:
        return _made(item, phase, "passed", None)
    failed = [rank for rank, report in own.items() if report.failed]
    skipped = [rank for rank, report in own.items() if report.skipped]
    report = own[_culprit(own, failed)] if failed else own[min(skipped, default=min(own))]
    report.duration = max(each.duration for each in own.values())
    report.sections = _sections(own, outcome.size)
    if failed:
        _name(report, _culprit(own, failed), outcome.size)
        report.sections = [*_others(own, _culprit(own, failed)), *report.sections]
    elif skipped and len(skipped) < len(own):
        # Those that went on would have waited for them, had they met in a collective.
        others = sorted(set(own) - set(skipped))
        return _made(
            item,
            phase,
            "failed",
            f"{ranks_told(skipped)} skipped the test, and {ranks_told(others)} did not: {_reason(report)}",
        )
    return report


def _culprit(own: dict[int, pytest.TestReport], failed: list[int]) -> int:
    """Return the first rank that failed by itself: others only tell that their peer is gone."""
    by_itself = [rank for rank in failed if not is_victims(_message(own[rank]))]
    return min(by_itself or failed)


def _others(own: dict[int, pytest.TestReport], culprit: int) -> list[tuple[str, str]]:
    """Return a section on how the other ranks ended, those with one message together."""
    alike: dict[str, list[int]] = {}
    for rank, report in sorted(own.items()):
        if rank != culprit:
            told = _first_line(_message(report)) if report.failed else report.outcome
            alike.setdefault(told, []).append(rank)
    lines = [
        f"{ranks_told(ranks)}: {told}{' (its peer had failed)' if is_victims(told) else ''}"
        for told, ranks in alike.items()
    ]
    message = _message(own[culprit])
    hint = [TWICE] if "initialize the default process group twice" in message else []
    return [("ranks", "\n".join([*lines, *hint]))] if lines or hint else []


def _sections(own: dict[int, pytest.TestReport], size: int) -> list[tuple[str, str]]:
    """Return what each rank's tests wrote, that of several with the same text once."""
    found: dict[tuple[str, str], list[int]] = {}
    for rank, report in sorted(own.items()):
        for title, text in report.sections:
            found.setdefault((title, text), []).append(rank)
    return [
        (title if len(ranks) == size else f"{title}, {ranks_told(ranks)}", text)
        for (title, text), ranks in found.items()
    ]


def _name(report: pytest.TestReport, rank: int, size: int) -> None:
    """Say in the summary's line whose failure it is."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = f"[rank {rank} of {size}] {crash.message}"
    add = getattr(report.longrepr, "addsection", None)
    if add is not None:
        add(f"on rank {rank} of {size}", "")


def _message(report: pytest.TestReport) -> str:
    """Return the error's text, which begins with the name of its class."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    told = str(crash.message) if crash is not None else str(report.longrepr or "")
    return re.sub(r"^[\w.]+\.(?=\w+: )", "", told)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _reason(report: pytest.TestReport) -> str:
    longrepr = report.longrepr
    return str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr or "")


def _made(item: pytest.Item, when: Any, outcome: Any, reason: str | None) -> pytest.TestReport:
    return pytest.TestReport(
        item.nodeid, item.location, dict.fromkeys(item.keywords, 1), outcome, reason, when
    )
