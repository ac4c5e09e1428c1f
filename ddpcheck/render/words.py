"""How a report is put into words, whatever the format."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from ddpcheck import __version__
from ddpcheck.finding import Confidence, Finding, Scalar, Severity
from ddpcheck.report import CheckOutcome, CheckRecord, RankOutcome, Report

MOST_SPANS = 12
MOST_HOSTS_NAMED = 3
CUT = "..."
# Below ten seconds a tenth tells checks apart; above, it is noise.
WHOLE_FROM_S = 10.0


def one_line(text: str) -> str:
    """Return ``text`` on one line, with what a terminal would act on as escapes."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Return ``text`` with control, direction and unpaired surrogate characters as escapes.

    Host names, messages and stacks come from other machines: none of them may move
    the cursor or hide text.
    """
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def clipped(text: str, most: int) -> str:
    """Return ``text``, or its start and an ellipsis, in ``most`` characters."""
    return text if len(text) <= most else text[: most - len(CUT)] + CUT


def counted(number: int, noun: str) -> str:
    """Return ``1 error`` or ``2 errors``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def spans(numbers: Iterable[int]) -> list[str]:
    """Return the runs of consecutive numbers, such as ``0-7`` and ``9``."""
    ordered = sorted(set(numbers))
    # Within a run, a number and its place rise together.
    grouped = groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in grouped]
    return [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]


def rank_list(ranks: Iterable[int], most_spans: int = MOST_SPANS) -> str:
    """Return the ranks as ``0-7, 9``; a list of many holes is cut and counted."""
    listed = sorted(set(ranks))
    runs = spans(listed)
    if len(runs) <= most_spans:
        return ", ".join(runs)
    return f"{', '.join(runs[:most_spans])}, {CUT} ({len(listed)} in all)"


def where(ranks: Iterable[int], host_of: Mapping[int, str]) -> str:
    """Return who is meant, such as ``ranks 8-15 (node1)``."""
    listed = sorted(set(ranks))
    if not listed:
        return "the whole run"
    hosts = list(dict.fromkeys(host for rank in listed if (host := host_of.get(rank, ""))))
    named = one_line(", ".join(hosts)) if len(hosts) <= MOST_HOSTS_NAMED else f"{len(hosts)} hosts"
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
    return " | ".join(one_line(part) for part in parts if part)


def verdict_line(report: Report) -> str:
    """Return the verdict with everything that speaks against a plain pass."""
    ranks = [record.outcome for record in report.ranks]
    checks = [record.outcome for record in report.checks]
    counts = {
        "lost": ranks.count(RankOutcome.LOST),
        "stalled": ranks.count(RankOutcome.STALLED),
        "raised": checks.count(CheckOutcome.ERROR),
        "skipped": checks.count(CheckOutcome.SKIP),
    }
    parts = [
        f"verdict: {report.verdict.upper()}",
        counted(report.count(Severity.ERROR), "error"),
        counted(report.count(Severity.WARNING), "warning"),
        *(f"{number} {what}" for what, number in counts.items() if number),
    ]
    return ", ".join(parts)


def detail(check: CheckRecord) -> str:
    """Return what a check's line says: its summary, and the first line of its reason."""
    first = check.reason.partition("\n")[0]
    return "; ".join(one_line(each) for each in (check.summary, first) if each)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings by falling severity, then by falling confidence."""
    sure = tuple(Confidence)
    return sorted(findings, key=lambda each: (-each.severity.weight, sure.index(each.confidence)))
