"""The table of ranks: a row for all ranks of a host that fared the same."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from ddpcheck.finding import Severity
from ddpcheck.measures.words import counted, runs
from ddpcheck.render.words import one_line, rank_list
from ddpcheck.report import CheckOutcome, CheckRecord, RankRecord, Report

# Above this many rows, equal ranks of several hosts share one.
MOST_ROWS_BY_HOST = 24
MOST_SPANS_IN_CELL = 6
NOTHING = "-"


# What a cell says of a stage in which a judge failed: all its ranks are in doubt.
UNJUDGED = "unjudged"


class RankTable(NamedTuple):
    """The table's texts, a list a row."""

    headers: list[str]
    rows: list[list[str]]


class _Fared(NamedTuple):
    """A process and its cells; a faulty launch can give two processes one rank."""

    record: RankRecord
    cells: Sequence[str]
    is_apart: bool


class _Seen(NamedTuple):
    """What the cells of all ranks are derived from."""

    checks_of: Mapping[str, Sequence[CheckRecord]]
    usual: Mapping[str, str]
    counts: Mapping[tuple[int, str, Severity], int]

    @property
    def stages(self) -> list[str]:
        return list(self.checks_of)


class RankRow(NamedTuple):
    """A row's texts, as under the headers of a ``RankTable``, and the ranks that share it."""

    ranks: Sequence[int]
    cells: Sequence[str]


def rank_table(report: Report) -> RankTable:
    """Return the table of ranks: who, where, each stage that was asked for, the outcome."""
    headers = ["rank", "host", "device", *map(one_line, stages_of(report)), "outcome"]
    return RankTable(headers, [list(row.cells) for row in rank_rows(report)])


def rank_rows(report: Report, apart: Collection[int] = ()) -> list[RankRow]:
    """Return the rows of the table of ranks; those ``apart`` share none with any others."""
    checks_of = _checks_of(report)
    usual = {stage: _usual(checks) for stage, checks in checks_of.items()}
    seen = _Seen(checks_of, usual, _counts(report))
    records = _with_short_hosts(report.ranks)
    fared = [_Fared(record, _cells(record, seen), record.rank in apart) for record in records]
    groups = _folded(fared, by_host=True)
    if len(groups) > MOST_ROWS_BY_HOST:
        groups = _folded(fared, by_host=False)
    return [RankRow([each.record.rank for each in group], _row(group)) for group in groups]


def stages_of(report: Report) -> list[str]:
    """Return the stages of which checks were asked for, in the order of the run."""
    return list(_checks_of(report))


def _with_short_hosts(records: Sequence[RankRecord]) -> list[RankRecord]:
    # The domain that all hosts share takes room and tells nothing; an address has none.
    hosts = {record.host for record in records}
    short = {host: host.partition(".")[0] for host in hosts}
    if len(set(short.values())) < len(hosts) or any(map(str.isdecimal, short.values())):
        return list(records)
    return [structs.replace(record, host=short[record.host]) for record in records]


def _checks_of(report: Report) -> dict[str, list[CheckRecord]]:
    # Checks stand in the order of the run, so their stages do too.
    found: dict[str, list[CheckRecord]] = {}
    for check in report.checks:
        found.setdefault(check.stage, []).append(check)
    return found


def _counts(report: Report) -> Counter[tuple[int, str, Severity]]:
    stage_of = {check.id: check.stage for check in report.checks}
    return Counter(
        (rank, stage_of[finding.id], finding.severity)
        for finding in report.findings
        if finding.id in stage_of
        for rank in set(finding.ranks)
    )


def _cells(record: RankRecord, seen: _Seen) -> list[str]:
    reached = len(seen.stages)
    if record.outcome.is_gone:
        reached = _place_of_last(record, seen)
    told = [_cell(record, stage, seen) for stage in seen.stages[:reached]]
    return told + [record.outcome.value] * (len(seen.stages) - reached)


def _place_of_last(record: RankRecord, seen: _Seen) -> int:
    last = record.last_seen.check if record.last_seen else ""
    for place, (stage, checks) in enumerate(seen.checks_of.items()):
        # A rank may also be stuck in a stage's own work, between its checks.
        if any(check.id == last for check in checks) or last.partition("/")[0] == stage:
            return place
    return 0


def _cell(record: RankRecord, stage: str, seen: _Seen) -> str:
    errors = seen.counts.get((record.rank, stage, Severity.ERROR), 0)
    if errors:
        return counted(errors, "error")
    if record.reason and any(
        record.reason.startswith(f"{check.id} raised") for check in seen.checks_of[stage]
    ):
        return "raised"
    usual = seen.usual[stage]
    warnings = seen.counts.get((record.rank, stage, Severity.WARNING), 0)
    return counted(warnings, "warning") if warnings and usual != UNJUDGED else usual


def _usual(checks: Sequence[CheckRecord]) -> str:
    """Return what a stage's cell says of a rank that nothing is said of."""
    if any(_judge_failed(check) for check in checks):
        return UNJUDGED
    return "skip" if {check.outcome for check in checks} == {CheckOutcome.SKIP} else "ok"


def _judge_failed(check: CheckRecord) -> bool:
    # A probe that raised is its own ranks' matter.
    raised_on_ranks = check.reason.startswith("raised on rank")
    return check.outcome is CheckOutcome.ERROR and not raised_on_ranks


def _folded(fared: Iterable[_Fared], *, by_host: bool) -> list[list[_Fared]]:
    groups: dict[tuple[str, ...], list[_Fared]] = {}
    for each in sorted(fared, key=lambda each: each.record.rank):
        kind = each.record.device.partition(":")[0]
        host = each.record.host if by_host else ""
        key = (str(each.is_apart), host, kind, *each.cells, each.record.outcome)
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _row(group: Sequence[_Fared]) -> list[str]:
    records = [each.record for each in group]
    hosts = list(dict.fromkeys(record.host for record in records))
    return [
        rank_list((record.rank for record in records), MOST_SPANS_IN_CELL),
        (one_line(hosts[0]) or NOTHING) if len(hosts) == 1 else f"{len(hosts)} hosts",
        _devices([record.device for record in records]),
        *group[0].cells,
        records[0].outcome.value,
    ]


def _devices(devices: Sequence[str]) -> str:
    kind = devices[0].partition(":")[0]
    indices = [index for device in devices if (index := device.partition(":")[2])]
    if len(set(devices)) == 1 or not all(index.isdecimal() for index in indices):
        return one_line(devices[0]) or NOTHING
    return f"{one_line(kind)}:{','.join(runs(int(index) for index in indices))}"
