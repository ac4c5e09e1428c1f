"""How a report is put into words, whatever the format."""

from collections.abc import Iterable, Mapping

from ddpcheck import __version__
from ddpcheck.change import Course
from ddpcheck.finding import Confidence, Finding, Scalar, Severity
from ddpcheck.measures.words import counted, runs
from ddpcheck.report import CheckOutcome, CheckRecord, RankOutcome, Report

MOST_SPANS = 12
MOST_HOSTS_NAMED = 3
CUT = "..."
# Below ten seconds a tenth tells checks apart; above, it is noise.
WHOLE_FROM_S = 10.0
# More of one text is no help to a reader, and some of these formats' readers refuse it.
LONGEST_TEXT = 4_000
UNMATCHED = "ranks/other-collective"
LONGEST_NAME = 250


def one_line(text: str) -> str:
    """Return ``text`` on one line, with what a terminal would act on as escapes."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Return ``text`` with control, direction and unpaired surrogate characters as escapes.

    Host names, messages and stacks come from other machines: none of them may move
    the cursor or hide text.
    """
    if text.isprintable():  # as nearly all are, and there may be a million
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def several_lines(text: str, most: int = LONGEST_TEXT) -> str:
    """Return the first ``most`` characters of ``text``, its line breaks kept, all else printable."""
    return "\n".join(printable(line) for line in clipped(text, most).splitlines())


def clipped(text: str, most: int) -> str:
    """Return ``text``, or its start and an ellipsis, in ``most`` characters."""
    return text if len(text) <= most else text[: most - len(CUT)] + CUT


def rank_list(ranks: Iterable[int], most_spans: int = MOST_SPANS) -> str:
    """Return the ranks as ``0-7, 9``; a list of many holes is cut and counted."""
    listed = sorted(set(ranks))
    told = runs(listed)
    if len(told) <= most_spans:
        return ", ".join(told)
    return f"{', '.join(told[:most_spans])}, {CUT} ({len(listed)} in all)"


def where(ranks: Iterable[int], host_of: Mapping[int, str]) -> str:
    """Return who is meant, such as ``ranks 8-15 (node1)``."""
    listed = sorted(set(ranks))
    if not listed:
        return "the whole run"
    hosts = list(dict.fromkeys(host for rank in listed if (host := host_of.get(rank, ""))))
    shown = ", ".join(clipped(host, LONGEST_NAME) for host in hosts[:MOST_HOSTS_NAMED])
    named = one_line(shown) if len(hosts) <= MOST_HOSTS_NAMED else f"{len(hosts)} hosts"
    noun = "rank" if len(listed) == 1 else "ranks"
    return f"{noun} {rank_list(listed)}" + (f" ({named})" if named else "")


def host_of(report: Report) -> dict[int, str]:
    """Return the host of every rank that told one."""
    return {record.rank: record.host for record in report.ranks if record.host}


def seconds(duration_s: float) -> str:
    """Return a duration such as ``0.2 s`` or ``31 s``."""
    digits = 1 if duration_s < WHOLE_FROM_S else 0
    return f"{duration_s:.{digits}f} s"


def scalar(value: Scalar) -> str:
    """Return a setting's value as it would stand in a command."""
    return str(value).lower() if value is None or isinstance(value, bool) else one_line(str(value))


def headline(report: Report) -> str:
    """Return what ran where; says so when fewer ranks came than were asked for."""
    run = report.run
    ranks = counted(run.world_size, "rank")
    if run.world_size != run.requested_world_size:
        ranks = f"{run.world_size} of {counted(run.requested_world_size, 'rank')}"
    parts = [
        f"ddpcheck {run.versions.get('ddpcheck', __version__)}",
        f"{ranks} on {counted(len(run.hosts), 'host')}",
        run.backend,
        f"torch {run.versions['torch']}" if run.versions.get("torch") else "",
        f"profile {run.profile}" if run.profile else "",
    ]
    return " | ".join(one_line(clipped(part, LONGEST_NAME)) for part in parts if part)


def verdict_line(report: Report) -> str:
    """Return the verdict with everything that speaks against a plain pass."""
    ranks = [record.outcome for record in report.ranks]
    checks = [record.outcome for record in report.checks]
    counts = {
        "lost": ranks.count(RankOutcome.LOST),
        "stalled": ranks.count(RankOutcome.STALLED),
        "suppressed": len(report.suppressed),
        "raised": checks.count(CheckOutcome.ERROR),
        "skipped": checks.count(CheckOutcome.SKIP),
    }
    parts = [
        f"verdict: {report.verdict.upper()}",
        counted(report.count(Severity.ERROR), "error"),
        counted(report.count(Severity.WARNING), "warning"),
        *(f"{number} {what}" for what, number in counts.items() if number),
        worse_than_before(report),
    ]
    return ", ".join(part for part in parts if part)


def worse_than_before(report: Report) -> str:
    """Return how much is worse than in the baseline, which ends a run with 1; '' where nothing is."""
    number = report.changes.count(Course.WORSE) if report.changes else 0
    return f"{number} worse than the baseline" if number else ""


def doubt(finding: Finding, lead: str = "") -> str:
    """Return how sure a finding is, after ``lead``; '' where it is as sure as can be."""
    sure = finding.confidence is Confidence.HIGH
    return "" if sure else f"{lead}{finding.confidence.value} confidence"


def statement(finding: Finding, hosts: Mapping[int, str]) -> str:
    """Return what a finding says, in a few lines: who, what, how sure, and what to do."""
    confidence = doubt(finding, ", ")
    lines = [
        f"{where(finding.ranks, hosts)}{confidence}: {one_line(clipped(finding.title, LONGEST_TEXT))}",
        several_lines(finding.message),
        f"at: {one_line(clipped(str(finding.location), LONGEST_TEXT))}" if finding.location else "",
        f"fix: {one_line(clipped(finding.fix, LONGEST_TEXT))}",
    ]
    return "\n".join(line for line in lines if line)


def detail(check: CheckRecord) -> str:
    """Return what a check's line says: its summary, and the first line of its reason."""
    first = check.reason.partition("\n")[0]
    told = (clipped(each, LONGEST_TEXT) for each in (check.summary, first) if each)
    return "; ".join(map(one_line, told))


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings by falling severity, then by falling confidence.

    Of those that are as bad, collectives that do not match come first: what ranks raise next, of
    another one's data say, came of it.
    """
    sure = tuple(Confidence)
    return sorted(
        findings,
        key=lambda each: (
            -each.severity.weight,
            sure.index(each.confidence),
            each.id != UNMATCHED,
        ),
    )
