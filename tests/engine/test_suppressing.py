"""What is suppressed does not count, and is told of; what became of the ranks is left alone."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ddpcheck import jsontext
from ddpcheck.check import Stage
from ddpcheck.configuration import Configuration, Suppressed, Suppression, Threshold
from ddpcheck.engine.assembly import RUN_NAME, Ranks, assemble, build_report
from ddpcheck.engine.entries import Entry, Measured, Present, pack
from ddpcheck.engine.judging import Judgement
from ddpcheck.engine.suppressing import unused_suppressions, without_suppressed
from ddpcheck.errors import ExitCode
from ddpcheck.finding import Finding, Location, Severity
from ddpcheck.measures.testimony import State, Testimony
from ddpcheck.report import (
    CheckOutcome,
    CheckRecord,
    RankOutcome,
    Report,
    Run,
    Verdict,
    exit_code_of,
    from_json,
    to_json,
)

ID = "network/lossy-link"
CLOCK = "environment/clock-offset"
HOSTS = {0: "node0", 1: "node0", 2: "node1", 3: "node1"}


def suppression(**changes: Any) -> Suppression:
    settings: dict[str, Any] = {"check": ID, "reason": "known", **changes}
    return Suppression(**settings)


def finding(**changes: Any) -> Finding:
    settings: dict[str, Any] = {
        "id": ID,
        "title": "a link loses packets",
        "message": "node1 lost 7 % of 100",
        "fix": "another cable",
        "ranks": (2, 3),
        "location": Location("/home/ada/job/src/train.py", 41, "main"),
    }
    return Finding(**{**settings, **changes})


def judged(*findings: Finding, **changes: Any) -> Judgement:
    stage, outcome = Stage.NETWORK.value, CheckOutcome.FAIL
    record = CheckRecord(id=ID, stage=stage, title="t", outcome=outcome)
    return Judgement(record=msgspec.structs.replace(record, **changes), findings=findings)


def asked(*suppressions: Suppression, **changes: Any) -> Configuration:
    return Configuration(file="ddpcheck.toml", suppress=suppressions, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"check": "network"},
        {"check": "*/lossy-*"},
        {"ranks": (1, 2, 3)},
        {"hosts": ("node1",)},
        {"hosts": ("other", "node[12]")},
        {"match": "loses"},
        {"match": r"lost \d+ %"},
        {"match": "^node1"},
        {"location": "train.py"},
        {"location": "train.py:41"},
        {"location": "src/*.py"},
        {"location": "/home/ada/job/src/train.py:41"},
        {"ranks": (2, 3), "hosts": ("node1",), "match": "7", "location": "train.py"},
    ],
)
def test_covers(changes: dict[str, Any]) -> None:
    changes = {key: f"(?m){value}" if key == "match" else value for key, value in changes.items()}
    assert suppression(**changes).covers(finding(), HOSTS)


@pytest.mark.parametrize(
    "changes",
    [
        {"check": "network/lossy"},
        {"check": "data"},
        {"ranks": (2,)},  # of two ranks one is not accepted
        {"hosts": ("node0",)},
        {"match": "8 %"},
        {"location": "rain.py"},
        {"location": "train.py:4"},
        {"location": "lib/*.py"},
        {"ranks": (2, 3), "match": "8 %"},
    ],
)
def test_covers_no_other(changes: dict[str, Any]) -> None:
    assert not suppression(**changes).covers(finding(), HOSTS)


def test_a_finding_on_the_whole_run_or_without_a_place_is_on_no_rank_or_line_in_particular() -> (
    None
):
    whole = finding(ranks=(), location=None)
    assert suppression().covers(whole, HOSTS)
    assert not suppression(ranks=(0, 1, 2, 3)).covers(whole, HOSTS)
    assert not suppression(hosts=("*",)).covers(whole, HOSTS)
    assert not suppression(location="*").covers(whole, HOSTS)


def test_hosts_must_all_be_meant() -> None:
    assert not suppression(hosts=("node1",)).covers(finding(ranks=(1, 2)), HOSTS)
    assert suppression(hosts=("node0", "node1")).covers(finding(ranks=(1, 2)), HOSTS)
    assert not suppression(hosts=("node1",)).covers(finding(ranks=(2, 9)), HOSTS)


@pytest.mark.parametrize(
    ("others", "crashed", "outcome"),
    [
        ([], (), CheckOutcome.PASS),
        ([Severity.INFO], (), CheckOutcome.PASS),
        ([Severity.WARNING], (), CheckOutcome.FAIL),
        ([], (1,), CheckOutcome.ERROR),
        ([Severity.WARNING], (1,), CheckOutcome.ERROR),
        ([Severity.ERROR], (1,), CheckOutcome.FAIL),
    ],
)
def test_the_outcome_is_that_of_what_is_left(
    others: list[Severity], crashed: tuple[int, ...], outcome: CheckOutcome
) -> None:
    left = [finding(message="other", severity=severity) for severity in others]
    judgement = msgspec.structs.replace(judged(finding(), *left), crashed_ranks=crashed)
    known = asked(suppression(match="lost"), suppression(reason="the second one"))
    settled = without_suppressed(judgement, asked(known.suppress[0]), HOSTS)
    assert settled.record.outcome is outcome
    assert settled.findings == tuple(left)
    assert settled.suppressed == (Suppressed(finding(), "known"),)
    # Once more changes nothing.
    assert without_suppressed(settled, asked(known.suppress[0]), HOSTS) == settled


def test_a_check_that_broke_down_stays_an_error() -> None:
    broken = judged(finding(), outcome=CheckOutcome.ERROR, reason="its judge raised")
    settled = without_suppressed(broken, asked(suppression()), HOSTS)
    assert (settled.record.outcome, settled.findings) == (CheckOutcome.ERROR, ())


def test_the_first_reason_is_told() -> None:
    both = asked(suppression(reason="one"), suppression(reason="two"))
    assert without_suppressed(judged(finding()), both, HOSTS).suppressed[0].reason == "one"


def test_nothing_is_suppressed_without_a_word_or_among_the_ranks_fates() -> None:
    everything = asked(suppression(check="*"))
    for judgement, configuration in (
        (judged(finding()), None),
        (judged(finding()), asked(suppression(check="data"))),
        (judged(finding(), stage=Stage.RANKS.value), everything),
    ):
        assert without_suppressed(judgement, configuration, HOSTS) is judgement


@pytest.mark.parametrize(
    ("outcome", "changes", "is_told"),
    [
        (CheckOutcome.PASS, {}, True),
        (CheckOutcome.FAIL, {}, True),
        (CheckOutcome.SKIP, {}, False),
        (CheckOutcome.ERROR, {}, False),
        (CheckOutcome.PASS, {"check": "data/epoch-not-set"}, False),  # not selected
        (CheckOutcome.PASS, {"hosts": ("node9",)}, False),
        (CheckOutcome.PASS, {"hosts": ("node1",)}, True),
        (CheckOutcome.PASS, {"ranks": (9,)}, False),
        (CheckOutcome.PASS, {"ranks": (3, 9)}, True),
    ],
)
def test_an_unused_one_is_told_where_it_could_have_been_used(
    outcome: CheckOutcome, changes: dict[str, Any], *, is_told: bool
) -> None:
    one = suppression(**changes)
    records = [judged(outcome=outcome).record]
    assert unused_suppressions(asked(one), [], records, HOSTS) == [one] * is_told
    assert unused_suppressions(None, [], records, HOSTS) == []


def test_a_pattern_is_unused_only_if_all_that_it_names_ran() -> None:
    pattern = suppression(check="network")
    records = [judged().record, judged(id="network/mtu", outcome=CheckOutcome.SKIP).record]
    assert unused_suppressions(asked(pattern), [], records, HOSTS) == []
    assert unused_suppressions(asked(pattern), [], records[:1], HOSTS) == [pattern]


def test_one_that_a_finding_needed_is_used_though_another_came_first() -> None:
    two = asked(suppression(check="network"), suppression())
    apart = [Suppressed(finding(), "known")]
    assert unused_suppressions(two, apart, [judged().record], HOSTS) == []


def present_ranks() -> dict[int, list[Entry]]:
    return {
        rank: [
            Present(
                rank=rank,
                local_rank=rank % 2,
                world_size=4,
                host=host,
                pid=rank,
                gpus=0,
                backend="auto",
                launcher="torchrun",
                versions={},
            )
        ]
        for rank, host in HOSTS.items()
    }


def run_with(configuration: Configuration) -> Run:
    return Run(
        id="ddpcheck-1",
        command="ddpcheck run",
        launcher="torchrun",
        backend="gloo",
        profile="quick",
        requested_world_size=4,
        world_size=4,
        hosts=["node0", "node1"],
        started_at="2026-11-29T00:00:00Z",
        duration_s=1.0,
        versions={},
        configuration=configuration,
    )


def reported(configuration: Configuration, *judgements: Judgement, lost: bool = False) -> Report:
    testimonies = {rank: Testimony() for rank in HOSTS}
    if lost:
        testimonies[3] = Testimony(state=State.GONE, ended_by="SIGKILL")
    ranks = Ranks(present_ranks(), testimonies)
    return build_report(run_with(configuration), judgements, ranks)


def test_a_suppressed_finding_is_none_in_verdict_exit_code_and_ranks() -> None:
    report = reported(asked(suppression(hosts=("node1",))), judged(finding()))
    assert (report.verdict, exit_code_of(report, Severity.WARNING)) == (Verdict.PASS, ExitCode.OK)
    assert {record.outcome for record in report.ranks} == {RankOutcome.OK}
    assert (list(report.findings), report.checks[0].outcome) == ([], CheckOutcome.PASS)
    assert report.suppressed == [Suppressed(finding(), "known")]
    assert report.unused_suppressions == []


def test_without_the_suppression_it_is() -> None:
    report = reported(asked(suppression(hosts=("node0",))), judged(finding()))
    assert (report.verdict, exit_code_of(report, Severity.ERROR)) == (
        Verdict.FAIL,
        ExitCode.FINDINGS,
    )
    assert report.suppressed == []
    assert report.unused_suppressions == [suppression(hosts=("node0",))]


def test_a_lost_rank_is_never_suppressed() -> None:
    report = reported(asked(suppression(check="*")), judged(finding()), lost=True)
    assert report.verdict is Verdict.INCOMPLETE
    assert exit_code_of(report, Severity.ERROR) is ExitCode.INCOMPLETE


def test_the_report_keeps_what_was_asked() -> None:
    configuration = asked(
        suppression(ranks=(3,)), severity={"network": Severity.INFO}, options={"profile": "quick"}
    )
    report = reported(configuration, judged(finding()))
    again = from_json(to_json(report))
    assert again == from_json(to_json(again))
    assert again.run.configuration is not None
    assert again.run.configuration.suppress[0] == suppression(ranks=(3,))
    assert again.run.configuration.severity == {"network": Severity.INFO}


def crashed(folder: Path, configuration: Configuration) -> Report:
    """Return what is made of a run whose processes were all killed; node1 was 3 s ahead."""
    (folder / "ranks").mkdir(parents=True)
    (folder / RUN_NAME).write_bytes(jsontext.encode(run_with(configuration)))
    for rank, entries in present_ranks().items():
        host, at_s = HOSTS[rank], 3.0 * (HOSTS[rank] == "node1")
        facts = {"host": host, "place": host, "earliest_s": at_s, "latest_s": at_s}
        told = [*entries, Measured(CLOCK, facts, 0.1)]
        (folder / f"ranks/{rank}.jsonl").write_bytes(pack(told))
    return assemble(folder, {})


def test_what_a_crash_left_is_judged_as_the_run_was_asked(tmp_path: Path) -> None:
    def severities(report: Report) -> list[str]:
        return [each.severity.value for each in report.findings if each.id == CLOCK]

    gone = Threshold("a/plug-in-that-is-gone", "LIMIT_S", 5.0, 1.0)
    wide = Threshold(CLOCK, "OFFSET_S", 5.0, 1.0)
    assert severities(crashed(tmp_path / "own", asked())) == ["info"]
    assert severities(crashed(tmp_path / "wide", asked(thresholds=(gone, wide)))) == []
    grave = asked(severity={"environment": Severity.ERROR})
    assert severities(crashed(tmp_path / "grave", grave)) == ["error"]
    known = crashed(tmp_path / "known", asked(suppression(check=CLOCK)))
    assert severities(known) == []
    assert [each.finding.id for each in known.suppressed] == [CLOCK]
    assert known.verdict is Verdict.INCOMPLETE
