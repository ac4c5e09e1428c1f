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
    "--pdb and breakpoint() cannot enter a test on ranks: they are processes of their own, without your terminal. "
    "Show more with --showlocals, or run the body on one rank, without the marker"
)
# What pytest says of a test that was expected to fail and did not; the second of unittest's.
UNEXPECTED = ("[XPASS(strict)]", "Failed: Unexpected success")
TWICE = (
    "the ranks have a process group already: take it from the fixture ddpcheck_world, or mark the "
    "test with @pytest.mark.ranks(n, group=False) to let the code make its own"
)


@dataclass
class Outcome:
    """What became of a test on ``size`` ranks, by rank.

    reports: of its phases. parts: of its subtests, each by what tells it apart. called: how the body ended. done: what the test left changed, or ''.
    ended: what ended the process. unable: why it could not run the test. hang: who waits for whom.
    """

    size: int
    reports: dict[str, dict[int, pytest.TestReport]] = field(
        default_factory=lambda: {phase: {} for phase in PHASES}
    )
    parts: dict[tuple[str, int], dict[int, pytest.TestReport]] = field(
        default_factory=dict[tuple[str, int], dict[int, pytest.TestReport]]
    )
    called: dict[int, str] = field(default_factory=dict[int, str])
    done: dict[int, str] = field(default_factory=dict[int, str])
    ended: dict[int, str] = field(default_factory=dict[int, str])
    last_words: dict[int, str] = field(default_factory=dict[int, str])
    unable: dict[int, str] = field(default_factory=dict[int, str])
    hang: str = ""

    def take(self, rank: int, report: pytest.TestReport) -> None:
        """Take down the report of a phase, or of a subtest."""
        if is_of_subtest(report):
            told = str(getattr(report, "head_line", report.nodeid))
            nth = sum(rank in own for (head, _), own in self.parts.items() if head == told)
            self.parts.setdefault((told, nth), {})[rank] = report
        elif report.when in self.reports:
            self.reports[report.when][rank] = report

    def is_over(self, rank: int) -> bool:
        """Return whether nothing more will be heard of a rank."""
        return rank in self.done or rank in self.ended or rank in self.unable

    def has_failed(self) -> bool:
        """Return whether the others may wait for a rank in vain."""
        return bool(self.ended or self.unable) or "failed" in self.called.values()

    def is_poisoned(self) -> bool:
        """Return whether the next test is better off with fresh ranks."""
        # What fails as expected is no failed report, and the rank has left all the same.
        failed = "failed" in self.called.values() or any(
            each.failed
            for of in (*self.reports.values(), *self.parts.values())
            for each in of.values()
        )
        return bool(self.hang or self.ended or self.unable or failed or any(self.done.values()))


def is_of_subtest(report: pytest.TestReport) -> bool:
    """Return whether it is of a part of the body, which goes on after it."""
    # Its class is none of pytest's public ones; hooks of users hang things on reports of any kind.
    return type(report) is not pytest.TestReport and hasattr(report, "context")


def is_expected(report: pytest.TestReport) -> bool:
    """Return whether the test failed, as its author had said."""
    return report.skipped and hasattr(report, "wasxfail")


def refused(item: pytest.Item, reason: str) -> list[pytest.TestReport]:
    """Return the reports of a test that could not be begun."""
    return [_made(item, "setup", "failed", reason), _made(item, "teardown", "passed", None)]


def combined(item: pytest.Item, outcome: Outcome) -> list[pytest.TestReport]:
    """Return the reports of setup, call and teardown, one each, for all ranks; and of subtests."""
    reports = [
        _of_all(item, phase, outcome.reports[phase], outcome.size)
        for phase in PHASES
        if outcome.reports[phase] or phase != "call"
    ]
    if reports[0].failed:
        # Where one rank could not begin, the body of others has not passed the test.
        reports = [report for report in reports if report.when != "call" or report.failed]
    parts = [_of_all(item, "call", own, outcome.size) for own in outcome.parts.values()]
    _count_in(parts, reports)
    _tell_lost(item, outcome, reports)
    for report in reports:
        if report.failed and item.config.option.usepdb:
            report.sections.append(("ranks", NO_PDB))
    return [*reports[:1], *parts, *reports[1:]]


def _count_in(parts: list[pytest.TestReport], reports: list[pytest.TestReport]) -> None:
    """Let the call fail where subtests did, as pytest does where they ran in its own process."""
    failed = sum(part.failed for part in parts)
    for report in reports:
        if failed and report.when == "call" and report.passed:
            report.outcome = "failed"
            report.longrepr = f"contains {failed} failed subtest{'s' * (failed > 1)}"


def _tell_lost(item: pytest.Item, outcome: Outcome, reports: list[pytest.TestReport]) -> None:
    """Tell of ranks that did not come to the end, and let the test fail where nothing else did."""
    lost = _lost(outcome)
    if not lost:
        return
    told = [report for report in reports if report.failed]
    if not outcome.ended and not outcome.unable:
        # It hangs because a rank has failed as expected.
        told += [report for report in reports if is_expected(report)]
    if not told:
        _fail(reports, item, lost)
        return
    told[0].sections.append(("ranks", lost))
    crash: Any = getattr(told[0].longrepr, "reprcrash", None)
    if crash is not None and is_victims(_message(told[0])):
        crash.message = f"{_first_line(lost)}; {crash.message}"


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


def _of_all(
    item: pytest.Item, phase: str, own: dict[int, pytest.TestReport], size: int
) -> pytest.TestReport:
    if not own:
        return _made(item, phase, "passed", None)
    failed = [rank for rank, report in own.items() if report.failed]
    expected = [rank for rank, report in own.items() if is_expected(report)]
    skipped = [rank for rank, report in own.items() if report.skipped and rank not in expected]
    if expected and not skipped and all(_is_aftermath(own[rank]) for rank in failed):
        failed = []  # the test has failed, as it should, though not on each rank
    report = own[_culprit(own, failed)] if failed else own[min(skipped or expected or list(own))]
    report.duration = max(each.duration for each in own.values())
    report.sections = _sections(own, size)
    if failed:
        _name(report, _culprit(own, failed), size)
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


def _is_aftermath(report: pytest.TestReport) -> bool:
    """Return whether a rank failed only by another's expected failure, or for want of one."""
    told = _message(report)
    return is_victims(told) or any(told.startswith(each) for each in UNEXPECTED)


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
    hint += [NO_PDB] if "BdbQuit" in message else []
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
    return re.sub(r"^(\[rank \d+ of \d+\] )?([\w.]+\.(?=\w+: ))?", "", told)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _reason(report: pytest.TestReport) -> str:
    longrepr = report.longrepr
    return str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr or "")


def _made(item: pytest.Item, when: Any, outcome: Any, reason: str | None) -> pytest.TestReport:
    return pytest.TestReport(
        item.nodeid, item.location, dict.fromkeys(item.keywords, 1), outcome, reason, when
    )
