"""The report: its JSON both ways, and the verdict that follows from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpcheck.change import Change, Comparison, Course, Part
from ddpcheck.check import Stage
from ddpcheck.errors import ExitCode, ReportError
from ddpcheck.finding import Finding, Location, Recommendation, Severity
from ddpcheck.report import (
    FORMAT_VERSION,
    JUDGED_ALWAYS,
    REPORT_NAME,
    CheckOutcome,
    CheckRecord,
    FoldedFact,
    LastSeen,
    RankOutcome,
    RankRecord,
    Report,
    Run,
    Verdict,
    add_training,
    exit_code_of,
    fold,
    from_json,
    read_report,
    to_json,
    unfold,
    verdict_of,
    write_report,
)

RUN = Run(
    id="ddpcheck-20261127-221003-3f2a",
    command="ddpcheck run",
    launcher="torchrun",
    backend="gloo",
    profile="standard",
    requested_world_size=3,
    world_size=2,
    hosts=("node0",),
    started_at="2026-11-27T22:10:03Z",
    duration_s=4.2,
    versions={"torch": "2.13.0"},
)
OK, FAILED, STALLED, LOST = RankOutcome
PASS, FAIL, SKIP, BROKEN = CheckOutcome
ERROR, WARNING, INFO = Severity
VERDICTS = [
    # ranks, checks, findings, verdict, exit code when failing on errors and on warnings
    ([OK], [PASS], [], Verdict.PASS, (0, 0)),
    ([OK], [PASS, SKIP], [], Verdict.PASS, (0, 0)),
    ([OK], [SKIP], [], Verdict.INCOMPLETE, (4, 4)),
    ([OK], [PASS], [INFO], Verdict.PASS, (0, 0)),
    ([OK], [FAIL], [WARNING], Verdict.WARN, (0, 1)),
    ([OK, FAILED], [FAIL], [INFO, WARNING, ERROR], Verdict.FAIL, (1, 1)),
    ([OK], [BROKEN], [], Verdict.INCOMPLETE, (3, 3)),
    ([OK], [BROKEN, FAIL], [WARNING], Verdict.INCOMPLETE, (3, 1)),
    ([OK], [BROKEN, FAIL], [ERROR], Verdict.FAIL, (1, 1)),
    ([OK, STALLED], [PASS], [], Verdict.INCOMPLETE, (4, 4)),
    ([OK, FAILED], [PASS], [], Verdict.INCOMPLETE, (3, 3)),
    ([OK, FAILED], [PASS], [INFO], Verdict.INCOMPLETE, (3, 3)),
    ([OK, FAILED], [FAIL], [WARNING], Verdict.INCOMPLETE, (3, 1)),
    ([OK, FAILED], [SKIP], [], Verdict.INCOMPLETE, (3, 3)),
    ([LOST, OK], [SKIP], [], Verdict.INCOMPLETE, (4, 4)),
    ([LOST, FAILED], [FAIL], [ERROR], Verdict.INCOMPLETE, (4, 4)),
    ([STALLED], [BROKEN], [WARNING], Verdict.INCOMPLETE, (4, 4)),
]
FULL = Report(
    verdict=Verdict.INCOMPLETE,
    run=RUN,
    ranks=(
        RankRecord(rank=0, local_rank=0, host="node0", device="cpu"),
        RankRecord(rank=1, outcome=STALLED, reason="silent", last_seen=LastSeen("a/b", "stack")),
    ),
    checks=(CheckRecord(id="a/b", stage="network", title="t", outcome=FAIL, duration_s=0.5),),
    findings=(
        Finding(
            id="a/b",
            title="t",
            message="m",
            fix="f",
            ranks=(0,),
            location=Location("a.py", 3),
            evidence={"ms": 1.5},
        ),
    ),
    recommendation={"precision": Recommendation("fp32", "no bf16")},
    facts={"a/b": (FoldedFact((0, 1), {"address": None}),)},
    training={"steps": 3, "loss": [[0, 4.2]]},
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=9,
)


def _report(
    ranks: Sequence[RankOutcome], checks: Sequence[CheckOutcome], severities: Sequence[Severity]
) -> Report:
    records = [RankRecord(rank=rank, outcome=outcome) for rank, outcome in enumerate(ranks)]
    of_checks = [CheckRecord(id="a/b", stage="network", title="t", outcome=o) for o in checks]
    found = [Finding(title="t", message="m", fix="f", ranks=(0,), severity=s) for s in severities]
    return Report(
        verdict=verdict_of(records, of_checks, found),
        run=RUN,
        ranks=records,
        checks=of_checks,
        findings=found,
        recommendation={},
        facts={},
    )


@pytest.mark.parametrize(("ranks", "checks", "found", "verdict", "codes"), VERDICTS)
def test_verdict_and_exit_code(
    ranks: Sequence[RankOutcome],
    checks: Sequence[CheckOutcome],
    found: Sequence[Severity],
    verdict: Verdict,
    codes: tuple[int, int],
) -> None:
    report = _report(ranks, checks, found)
    assert report.verdict is verdict
    assert (exit_code_of(report, ERROR), exit_code_of(report, WARNING)) == codes


@pytest.mark.parametrize("of_ranks", [PASS, SKIP])
@pytest.mark.parametrize(
    ("measured", "verdict", "code"),
    [
        ([PASS], Verdict.PASS, ExitCode.OK),
        ([SKIP], Verdict.INCOMPLETE, ExitCode.INCOMPLETE),
        ([SKIP, PASS], Verdict.PASS, ExitCode.OK),
    ],
)
def test_what_is_judged_always_does_not_count_as_having_measured(
    measured: list[CheckOutcome], of_ranks: CheckOutcome, verdict: Verdict, code: ExitCode
) -> None:
    report = _report([OK], measured, [])
    judged = CheckRecord(id="ranks/a", stage=JUDGED_ALWAYS, title="t", outcome=of_ranks)
    checks = [*report.checks, judged]
    assert verdict_of(report.ranks, checks, []) is verdict
    assert exit_code_of(msgspec.structs.replace(report, checks=checks), ERROR) is code


def test_a_judge_of_the_ranks_that_broke_is_an_internal_error_and_no_pass() -> None:
    broken = CheckRecord(id="ranks/a", stage=JUDGED_ALWAYS, title="t", outcome=BROKEN)
    report = _report([OK], [PASS], [])
    checks = [*report.checks, broken]
    assert exit_code_of(msgspec.structs.replace(report, checks=checks), ERROR) is ExitCode.INTERNAL
    assert verdict_of(report.ranks, checks, []) is Verdict.INCOMPLETE


def test_the_stage_that_is_judged_always_is_that_of_the_ranks() -> None:
    assert Stage.RANKS.value == JUDGED_ALWAYS


@pytest.mark.parametrize("gone", [STALLED, LOST])
@pytest.mark.parametrize("severity", Severity)
def test_a_rank_that_is_gone_wins_over_findings(gone: RankOutcome, severity: Severity) -> None:
    assert exit_code_of(_report([OK, gone], [FAIL], [severity]), INFO) is ExitCode.INCOMPLETE


def test_counts_exactly_one_severity() -> None:
    report = _report([OK], [FAIL], [WARNING, ERROR, WARNING])
    assert [report.count(severity) for severity in Severity] == [1, 2, 0]


def test_survives_json() -> None:
    again = from_json(to_json(FULL))
    assert to_json(again) == to_json(FULL)
    assert again.findings == list(FULL.findings)
    assert again.ranks == list(FULL.ranks)
    assert again.run.requested_world_size == 3


def test_the_json_is_indented_and_ends_with_a_newline() -> None:
    assert to_json(FULL).startswith(b'{\n "format_version": 1,\n "verdict": "incomplete",')
    assert to_json(FULL).endswith(b"}\n")


def test_fields_of_a_later_minor_version_survive() -> None:
    later = {
        "weather": {"sky": ["blue", None]},
        "facts": {"a/b": [{"ranks": [0], "value": {"n": 1}}]},
    }
    plain = {**msgspec.json.decode(to_json(FULL)), **later}
    again = from_json(msgspec.json.encode(plain))
    assert msgspec.json.decode(to_json(again)) == plain
    assert again.later == {"weather": later["weather"]}


def test_an_older_version_is_read() -> None:
    plain = msgspec.json.decode(to_json(FULL))
    del plain["training"], plain["run"]["target"]
    older = msgspec.json.encode({**plain, "format_version": FORMAT_VERSION - 1})
    assert from_json(older).verdict is Verdict.INCOMPLETE


def test_what_is_worse_than_the_baseline_is_a_finding_of_its_own() -> None:
    worse = Change(part=Part.SPEED, what="x", before="1", now="2", course=Course.WORSE)
    better = msgspec.structs.replace(worse, course=Course.BETTER)
    codes = [
        exit_code_of(
            msgspec.structs.replace(
                _report([OK], [PASS], []),
                changes=Comparison(before="a", now="b", bound_ratio=0.05, changes=[change]),
            ),
            ERROR,
        )
        for change in (worse, better)
    ]
    assert codes == [ExitCode.FINDINGS, ExitCode.OK]


def test_a_newer_format_is_refused_even_when_nothing_else_fits() -> None:
    newer = msgspec.json.encode({"format_version": FORMAT_VERSION + 1, "verdict": 7})
    with pytest.raises(ReportError, match="format version 2, newer than 1: read it with a newer"):
        from_json(newer, "old.json")


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\x00\xff\xfe",
        b"not json\nat all",
        b"[]",
        b"{}",
        b'{"format_version": "1"}',
        b'{"format_version": 1, "verdict": "great"}',
        to_json(FULL)[:-200],
    ],
)
def test_garbage_is_refused_in_one_line_that_names_the_file(garbage: bytes) -> None:
    with pytest.raises(ReportError) as caught:
        from_json(garbage, "reports/x/report.json")
    assert str(caught.value).startswith("reports/x/report.json is not a ddpcheck report: ")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["", REPORT_NAME])
def test_reads_a_file_or_its_directory(tmp_path: Path, name: str) -> None:
    assert write_report(FULL, tmp_path) == tmp_path / REPORT_NAME
    assert to_json(read_report(tmp_path / name)) == to_json(FULL)


def test_a_report_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"there is no .*gone.json: run 'ddpcheck run' first"):
        read_report(tmp_path / "gone.json")


def test_a_report_that_cannot_be_written_says_where_else(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"cannot write .*report.json: .*choose --report-dir"):
        write_report(FULL, tmp_path / "gone")


def test_writing_leaves_nothing_else_behind(tmp_path: Path) -> None:
    write_report(FULL, tmp_path)
    write_report(FULL, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [REPORT_NAME]


def test_a_write_that_breaks_off_leaves_the_old_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_report(FULL, tmp_path)

    def breaks_off(file: Path, text: bytes) -> int:
        with file.open("wb") as half:
            half.write(text[: len(text) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", breaks_off)
    with pytest.raises(ReportError, match="No space left on device"):
        write_report(_report([OK], [PASS], []), tmp_path)
    assert to_json(read_report(tmp_path)) == to_json(FULL)


def test_training_is_added_and_unknown_fields_stay(tmp_path: Path) -> None:
    file = tmp_path / REPORT_NAME
    plain: dict[str, Any] = msgspec.json.decode(to_json(FULL))
    plain |= {"weather": "fine"}
    plain["run"] |= {"moon": "full"}
    file.write_bytes(msgspec.json.encode(plain))
    add_training(tmp_path, {"steps": 9, "loss": ((0, 1.5),)})
    added = msgspec.json.decode(file.read_bytes())
    assert added == {**plain, "training": {"steps": 9, "loss": [[0, 1.5]]}}


def test_a_part_of_training_and_the_rest_leave_each_other_alone(tmp_path: Path) -> None:
    def training() -> object:
        return read_report(tmp_path).training

    write_report(_report([OK], [PASS], []), tmp_path)
    add_training(tmp_path, {"steps": 9, "exposed": 1})
    add_training(tmp_path, {"parity": [1]})
    assert training() == {"steps": 9, "exposed": 1, "parity": [1]}
    add_training(tmp_path, {"parity": [2]})
    add_training(tmp_path, {"steps": 3})
    assert training() == {"steps": 3, "parity": [2]}


def test_training_needs_a_report(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="there is no"):
        add_training(tmp_path, {})


class _Measured(msgspec.Struct, frozen=True):
    address: str


def test_equal_facts_are_stored_once() -> None:
    values = {2: _Measured("a"), 0: _Measured("a"), 1: _Measured("b")}
    assert fold(values) == [
        FoldedFact((0, 2), {"address": "a"}),
        FoldedFact((1,), {"address": "b"}),
    ]


def test_values_that_only_look_equal_are_kept_apart() -> None:
    assert len(fold({0: 1, 1: True, 2: "1", 3: None, 4: 1.0, 5: 0})) == 6


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.integers(0, 99), json_values, max_size=9))
def test_unfold_is_the_inverse_of_fold(values: dict[int, Any]) -> None:
    assert unfold(fold(values)) == values


@pytest.mark.parametrize("as_json", [True, False])
def test_keys_keep_their_order_and_equal_values_in_another_are_one(as_json: bool) -> None:
    told = [{"b": 1, "a": {"y": 2, "x": 3}}, {"a": {"x": 3, "y": 2}, "b": 1}, {"b": 1, "a": {}}]
    values = dict(enumerate(map(msgspec.json.encode, told) if as_json else told))
    first, second = fold(values)
    assert (first.ranks, second.ranks) == ((0, 1), (2,))
    text = first.value if as_json else msgspec.json.encode(first.value)
    assert text == b'{"b":1,"a":{"y":2,"x":3}}'
