"""Reports: from what the leader has, and from the files that a crash left."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ddpcheck import jsontext
from ddpcheck.catalogue import catalogue, check_named
from ddpcheck.engine.assembly import RUN_NAME, Ranks, assemble, build_report
from ddpcheck.engine.blackbox import BlackBox
from ddpcheck.engine.entries import (
    Began,
    Crashed,
    Ended,
    Entry,
    Measured,
    Present,
    Skipped,
    Testified,
    pack,
)
from ddpcheck.engine.judging import Judgement
from ddpcheck.errors import ExitCode, ReportError
from ddpcheck.finding import Finding, Recommendation, Severity
from ddpcheck.measures.inquest import inquest
from ddpcheck.measures.testimony import State, Testimony
from ddpcheck.report import (
    CheckOutcome,
    CheckRecord,
    FoldedFact,
    LastSeen,
    RankOutcome,
    Report,
    Run,
    Verdict,
    exit_code_of,
    from_json,
    to_json,
)

STAGES = ("launch", "environment", "collectives", "rehearsal")
JOINED = {"backend": "gloo", "duration_s": 0.1, "error": None}
GROUP = "collectives/no-process-group"
RAISED = Testimony(state=State.RAISED, check="network/a", error="ValueError: 7", stack="line 7")
STUCK = Testimony(state=State.BUSY, check="network/a", overran=True, stack="Thread 1\n  train.py")


def run_of(world: int, backend: str = "gloo") -> Run:
    return Run(
        id="ddpcheck-20261128-000000-0000",
        command="ddpcheck run",
        launcher="ddpcheck",
        backend=backend,
        profile="quick",
        requested_world_size=world,
        world_size=world,
        hosts=["node0"],
        started_at="2026-11-28T00:00:00Z",
        duration_s=0.0,
        versions={},
    )


def present(rank: int, gpus: int = 0, local_rank: int | None = None) -> Present:
    return Present(
        rank=rank,
        local_rank=rank if local_rank is None else local_rank,
        world_size=2,
        host="node0",
        pid=100 + rank,
        gpus=gpus,
        backend="auto",
        launcher="ddpcheck",
        versions={},
    )


def told(rank: int, *stages: str, more: Sequence[Entry] = ()) -> list[Entry]:
    return [present(rank), *(Ended(stage) for stage in stages), *more]


def ranks(
    entries: Mapping[int, Sequence[Entry]],
    testimonies: Mapping[int, Testimony] | None = None,
    absent: Sequence[int] = (),
) -> Ranks:
    """Return the ranks, of whom those without a testimony have come through."""
    through = dict.fromkeys(entries, Testimony())
    return Ranks(entries, through | dict(testimonies or {}), absent)


def judged(
    check_id: str = "network/a", *findings: Finding, outcome: CheckOutcome = CheckOutcome.PASS
) -> Judgement:
    record = CheckRecord(id=check_id, stage="network", title="a fault", outcome=outcome)
    return Judgement(record=record, findings=findings)


def finding(severity: Severity, *ranks: int) -> Finding:
    return Finding(
        id="network/a", title=f"a {severity}", message="m", fix="f", ranks=ranks, severity=severity
    )


class TestBuilding:
    def test_ranks_that_came_through_are_ok(self) -> None:
        report = build_report(run_of(2), [judged()], ranks({1: told(1), 0: told(0)}))
        assert report.verdict is Verdict.PASS
        assert [(each.rank, each.outcome) for each in report.ranks] == [
            (0, RankOutcome.OK),
            (1, RankOutcome.OK),
        ]
        assert {each.reason for each in report.ranks} == {""}

    @pytest.mark.parametrize(
        ("backend", "gpus", "local_rank", "device"),
        [
            ("gloo", 0, 1, "cpu"),
            ("gloo", 8, 1, "cpu"),
            ("nccl", 8, 1, "cuda:1"),
            ("nccl", 8, 7, "cuda:7"),
            ("nccl", 1, 3, "cuda:0"),
            ("nccl", 0, 1, "cpu"),
        ],
    )
    def test_the_device_follows_the_backend_and_what_the_rank_sees(
        self, backend: str, gpus: int, local_rank: int, device: str
    ) -> None:
        entries = {0: [present(0, gpus, local_rank)]}
        (record,) = build_report(run_of(1, backend), [], ranks(entries)).ranks
        assert (record.device, record.local_rank, record.host) == (device, local_rank, "node0")

    def test_a_rank_that_an_error_names_has_failed(self) -> None:
        judgement = judged("network/a", finding(Severity.ERROR, 1))
        report = build_report(run_of(2), [judgement], ranks({0: told(0), 1: told(1)}))
        assert [each.outcome for each in report.ranks] == [RankOutcome.OK, RankOutcome.FAILED]
        assert report.ranks[1].reason == "network/a: a error"
        assert report.verdict is Verdict.FAIL

    @pytest.mark.parametrize("severity", [Severity.WARNING, Severity.INFO])
    def test_less_than_an_error_fails_no_rank(self, severity: Severity) -> None:
        judgement = judged("network/a", finding(severity, 0))
        (record,) = build_report(run_of(1), [judgement], ranks({0: told(0)})).ranks
        assert record.outcome is RankOutcome.OK

    def test_a_rank_on_which_a_check_crashed_has_failed(self) -> None:
        record = CheckRecord(id="network/a", stage="network", title="t", outcome=CheckOutcome.ERROR)
        judgement = Judgement(record=record, crashed_ranks=(1,))
        report = build_report(run_of(2), [judgement], ranks({0: told(0), 1: told(1)}))
        assert (report.ranks[1].outcome, report.ranks[1].reason) == (
            RankOutcome.FAILED,
            "network/a raised",
        )
        assert report.verdict is Verdict.INCOMPLETE

    def test_findings_come_gravest_first_and_else_in_order(self) -> None:
        first = judged("network/a", finding(Severity.INFO, 0), finding(Severity.ERROR, 0))
        second = judged("network/b", finding(Severity.WARNING, 0), finding(Severity.ERROR, 1))
        report = build_report(run_of(2), [first, second], ranks({0: told(0), 1: told(1)}))
        assert [(each.severity.value, each.ranks) for each in report.findings] == [
            ("error", (0,)),
            ("error", (1,)),
            ("warning", (0,)),
            ("info", (0,)),
        ]

    def test_the_first_recommendation_of_a_setting_counts(self) -> None:
        one, other = (
            Judgement(record=judged(name).record, recommendation=recommendation)
            for name, recommendation in (
                ("network/a", {"backend": Recommendation("nccl", "faster")}),
                (
                    "network/b",
                    {"backend": Recommendation("gloo", "b"), "device": Recommendation("cpu", "b")},
                ),
            )
        )
        recommended = build_report(run_of(1), [one, other], ranks({0: told(0)})).recommendation
        assert {name: each.value for name, each in recommended.items()} == {
            "backend": "nccl",
            "device": "cpu",
        }

    def test_only_checks_that_measured_have_facts(self) -> None:
        facts = [FoldedFact((0,), {"x": 1})]
        measured = Judgement(record=judged("network/b").record, facts=facts)
        report = build_report(run_of(1), [judged(), measured], ranks({0: told(0)}))
        assert report.facts == {"network/b": facts}
        assert [each.id for each in report.checks] == ["network/a", "network/b"]

    @pytest.mark.parametrize(
        ("testimony", "outcome"),
        [
            (Testimony(state=State.GONE, check="network/b", ended_by="SIGKILL"), RankOutcome.LOST),
            (Testimony(state=State.GONE, check="network/b"), RankOutcome.LOST),
            (Testimony(state=State.GARBLED, check="network"), RankOutcome.LOST),
            (STUCK, RankOutcome.STALLED),
            (Testimony(state=State.STOPPED, check="network/a"), RankOutcome.STALLED),
            (Testimony(state=State.SILENT, check="network/a"), RankOutcome.STALLED),
            (RAISED, RankOutcome.FAILED),
        ],
        ids=lambda value: value.state.value if isinstance(value, Testimony) else value.value,
    )
    def test_a_rank_that_did_not_come_through_says_why_and_the_others_waited(
        self, testimony: Testimony, outcome: RankOutcome
    ) -> None:
        waiting = Testimony(state=State.BUSY, check="network/c", stack="wait", waits_in="barrier")
        of_both = ranks({0: told(0), 1: told(1)}, {0: waiting, 1: testimony})
        report = build_report(run_of(2), [judged()], of_both)
        rulings = inquest(of_both.testimonies)
        assert [each.outcome for each in report.ranks] == [RankOutcome.OK, outcome]
        assert [each.reason for each in report.ranks] == [rulings[0].reason, rulings[1].reason]
        assert [each.last_seen for each in report.ranks] == [
            LastSeen("network/c", "wait"),
            LastSeen(testimony.check, testimony.stack),
        ]
        assert report.verdict is Verdict.INCOMPLETE

    def test_a_rank_that_waited_names_whom_it_waited_for(self) -> None:
        waiting = Testimony(state=State.BUSY, check="network/c", waits_in="barrier")
        of_both = ranks({0: told(0), 1: told(1)}, {0: waiting, 1: STUCK})
        victim, _ = build_report(run_of(2), [], of_both).ranks
        assert victim.reason == "waited for rank 1 in network/c"

    def test_a_run_that_lost_a_rank_is_incomplete_also_to_its_caller(self) -> None:
        gone = {0: Testimony(state=State.GONE)}
        report = build_report(run_of(1), [judged()], ranks({0: told(0)}, gone))
        assert exit_code_of(report, Severity.ERROR) is ExitCode.INCOMPLETE

    def test_a_rank_that_is_gone_before_any_check_was_seen_nowhere(self) -> None:
        gone = {0: Testimony(state=State.GONE, ended_by="exit code 1")}
        (record,) = build_report(run_of(1), [], ranks({0: told(0)}, gone)).ranks
        assert (record.outcome, record.reason) == (RankOutcome.LOST, "left with exit code 1")
        assert record.last_seen is None

    def test_ranks_that_were_interrupted_are_lost(self) -> None:
        stopped = Testimony(state=State.BUSY, check="network/a", interrupted_by="SIGINT")
        both = ranks({0: told(0), 1: told(1)}, {0: stopped, 1: stopped})
        records = build_report(run_of(2), [], both).ranks
        assert {each.outcome for each in records} == {RankOutcome.LOST}
        assert {each.reason for each in records} == {"interrupted by SIGINT in network/a"}

    def test_an_error_that_names_who_only_waited_does_not_fail_it(self) -> None:
        gone = {1: Testimony(state=State.GONE), 0: Testimony(state=State.BUSY, check="network/a")}
        judgement = judged("network/a", finding(Severity.ERROR, 0))
        report = build_report(run_of(2), [judgement], ranks({0: told(0), 1: told(1)}, gone))
        assert report.ranks[0].outcome is RankOutcome.OK

    def test_ranks_that_never_came_are_lost_in_their_place(self) -> None:
        report = build_report(run_of(4), [], ranks({0: told(0), 3: told(3)}, absent=[1, 2]))
        assert [(each.rank, each.outcome.value, each.reason) for each in report.ranks] == [
            (0, "ok", ""),
            (1, "lost", "never came"),
            (2, "lost", "never came"),
            (3, "ok", ""),
        ]
        assert report.verdict is Verdict.INCOMPLETE

    def test_why_ranks_did_not_come_can_be_said(self) -> None:
        apart = ranks({0: told(0)}, absent=[1])._replace(absence="was not met")
        assert build_report(run_of(2), [], apart).ranks[1].reason == "was not met"

    def test_two_processes_of_one_rank_are_two_records(self) -> None:
        came = ranks({0: told(0), 1: [present(0)]}, absent=[1])
        report = build_report(run_of(2), [], came)
        assert [each.rank for each in report.ranks] == [0, 0, 1]

    def test_the_report_can_be_written_and_read(self) -> None:
        judgement = judged("network/a", finding(Severity.ERROR, 1))
        came = ranks({0: told(0), 1: told(1)}, {1: STUCK}, absent=[2])
        report = build_report(run_of(3), [judgement], came)
        assert to_json(from_json(to_json(report))) == to_json(report)

    def test_a_run_that_measured_nothing_is_no_pass(self) -> None:
        skipped = judged("network/a", outcome=CheckOutcome.SKIP)
        report = build_report(run_of(1), [skipped], ranks({0: told(0)}))
        assert report.verdict is not Verdict.PASS


def left(run_dir: Path, files: Mapping[str, bytes], world: int = 2) -> Path:
    """Write what a run of ``world`` ranks left, and return its directory."""
    (run_dir / "ranks").mkdir()
    (run_dir / RUN_NAME).write_bytes(jsontext.encode(run_of(world)))
    for name, text in files.items():
        (run_dir / "ranks" / name).write_bytes(text)
    return run_dir


def outcomes(report: Report) -> list[tuple[int, str]]:
    return [(each.rank, each.outcome.value) for each in report.ranks]


WHOLE = {f"{rank}.jsonl": pack(told(rank, *STAGES)) for rank in range(2)}
LOST_BOTH = ("ranks/lost", (0, 1))
EARLY = pack(told(1, "launch", more=[Began("environment/version-mismatch", 1.0)]))
LATE = pack(told(0, *STAGES))


class TestWhatACrashLeft:
    @pytest.mark.parametrize(
        ("files", "wanted"),
        [
            pytest.param({}, [(0, "lost"), (1, "lost")], id="no file"),
            pytest.param({"0.jsonl": LATE}, [(0, "ok"), (1, "lost")], id="one file"),
            pytest.param(
                {"0.jsonl": LATE, "1.jsonl": b""}, [(0, "ok"), (1, "lost")], id="an empty file"
            ),
            pytest.param(
                {"0.jsonl": LATE, "1.jsonl": b"\xff\0garbage\n"},
                [(0, "ok"), (1, "lost")],
                id="garbage",
            ),
            pytest.param(
                {"0.jsonl": LATE, "1.jsonl": pack([present(1)])[:-20]},
                [(0, "ok"), (1, "lost")],
                id="cut in the first line",
            ),
            pytest.param(
                {"0.jsonl": LATE, "1.jsonl": EARLY}, [(0, "ok"), (1, "lost")], id="an early end"
            ),
            pytest.param(
                {"0.jsonl": LATE, "1.jsonl": LATE[:-5]},
                [(0, "ok"), (0, "lost"), (1, "lost")],
                id="two processes claimed rank 0",
            ),
            pytest.param(
                {"0.jsonl": LATE, "1.jsonl": pack(told(1, *STAGES))[:-5]},
                [(0, "ok"), (1, "lost")],
                id="cut in the last line",
            ),
            pytest.param(
                {
                    "0.jsonl": LATE,
                    "1.jsonl": pack(told(1, "launch", more=[Testified(STUCK)])),
                },
                [(0, "ok"), (1, "stalled")],
                id="stuck",
            ),
            pytest.param(
                {"0.jsonl": pack([present(0)]), "1.jsonl": pack([present(1)])},
                [(0, "lost"), (1, "lost")],
                id="nobody ended a stage",
            ),
            pytest.param(
                {"0.jsonl": LATE, "notes.jsonl": LATE, "1.jsonl.swp": LATE, "-1.jsonl": LATE},
                [(0, "ok"), (1, "lost")],
                id="files of others",
            ),
            pytest.param(
                {name: pack(told(int(name[0]), "launch")) for name in WHOLE},
                [(0, "lost"), (1, "lost")],
                id="all were killed between two stages",
            ),
        ],
    )
    def test_it_is_never_a_pass_and_names_who_is_lost(
        self, files: dict[str, bytes], wanted: list[tuple[int, str]], tmp_path: Path
    ) -> None:
        report = assemble(left(tmp_path, files), {})
        assert outcomes(report) == wanted
        assert report.verdict is Verdict.INCOMPLETE
        assert exit_code_of(report, Severity.ERROR) is ExitCode.INCOMPLETE

    def test_every_cut_of_a_file_can_be_assembled(self, tmp_path: Path) -> None:
        whole = pack(
            told(1, "launch", more=[Began(GROUP, 1.0), Measured(GROUP, JOINED, 0.1), Ended("x")])
        )
        run_dir = left(tmp_path, {"0.jsonl": LATE})
        for end in range(0, len(whole) - 30, 7):
            (run_dir / "ranks" / "1.jsonl").write_bytes(whole[:end])
            assert outcomes(assemble(run_dir, {})) == [(0, "ok"), (1, "lost")]

    @pytest.mark.parametrize(
        ("ended_by", "words"),
        [("SIGKILL", "SIGKILL"), ("exit code 3", "exit code 3"), ("", "ended without a word")],
    )
    def test_how_a_process_ended_and_where_is_its_reason(
        self, ended_by: str, words: str, tmp_path: Path
    ) -> None:
        files = WHOLE | {"1.jsonl": pack(told(1, *STAGES, more=[Began("network/a", 1.0)]))}
        report = assemble(left(tmp_path, files), {1: ended_by})
        assert outcomes(report) == [(0, "ok"), (1, "lost")]
        assert words in report.ranks[1].reason
        assert report.ranks[1].reason.endswith(" in network/a")

    def test_a_rank_without_a_known_reason_says_where_its_file_ends(self, tmp_path: Path) -> None:
        report = assemble(left(tmp_path, {"0.jsonl": LATE, "1.jsonl": EARLY}), {})
        assert report.ranks[1].reason.endswith(" in environment/version-mismatch")
        assert report.ranks[1].last_seen == LastSeen("environment/version-mismatch")

    def test_a_rank_is_not_said_to_have_ended_the_stage_of_another(self, tmp_path: Path) -> None:
        report = assemble(left(tmp_path, {"0.jsonl": LATE, "1.jsonl": EARLY}), {})
        assert "rehearsal" not in report.ranks[1].reason

    def test_the_black_box_says_more_than_the_file(self, tmp_path: Path) -> None:
        run_dir = left(tmp_path, {"0.jsonl": LATE, "1.jsonl": EARLY})
        box = BlackBox(run_dir / "ranks" / "1.box")
        box.enter_check("rehearsal/training")
        (run_dir / "ranks" / "1.stack").write_text("Fatal Python error\n  train.py\n")
        record = assemble(run_dir, {1: "SIGSEGV"}).ranks[1]
        assert "SIGSEGV in rehearsal/training" in record.reason
        assert record.last_seen == LastSeen("rehearsal/training", "Fatal Python error\n  train.py")

    def test_a_ranks_own_last_word_outweighs_its_end(self, tmp_path: Path) -> None:
        stuck = pack(told(1, "launch", more=[Testified(STUCK)]))
        report = assemble(left(tmp_path, {"0.jsonl": LATE, "1.jsonl": stuck}), {1: "SIGKILL"})
        assert report.ranks[1].outcome is RankOutcome.STALLED
        assert report.ranks[1].last_seen == LastSeen("network/a", STUCK.stack)

    @pytest.mark.parametrize("rank", [0, 1])
    def test_ranks_above_nine_are_read_in_their_order(self, rank: int, tmp_path: Path) -> None:
        files = {f"{each}.jsonl": pack(told(each, *STAGES)) for each in range(12) if each != rank}
        report = assemble(left(tmp_path, files, world=12), {})
        assert outcomes(report) == [(each, "lost" if each == rank else "ok") for each in range(12)]

    def test_what_was_measured_is_judged(self, tmp_path: Path) -> None:
        failed = JOINED | {"error": "RuntimeError: no route"}
        files = {
            "0.jsonl": pack(told(0, more=[Measured(GROUP, JOINED, 0.1)])),
            "1.jsonl": pack(told(1, more=[Measured(GROUP, failed, 0.1)])),
        }
        report = assemble(left(tmp_path, files), {})
        assert [(each.id, each.ranks) for each in report.findings] == [(GROUP, (1,)), LOST_BOTH]
        assert len(report.facts[GROUP]) == 2
        by_id = {each.id: each for each in report.checks}
        assert by_id[GROUP].outcome is CheckOutcome.FAIL
        assert set(by_id) == {check.id for check in catalogue()}

    def test_checks_that_nobody_came_to_are_skipped_and_say_so(self, tmp_path: Path) -> None:
        report = assemble(left(tmp_path, {"0.jsonl": pack(told(0))}), {})
        measured = [each for each in report.checks if each.stage != "ranks"]
        assert {each.outcome for each in measured} == {CheckOutcome.SKIP}
        assert {each.reason for each in measured} == {"the run ended before it"}

    def test_what_became_of_the_ranks_is_judged_all_the_same(self, tmp_path: Path) -> None:
        report = assemble(left(tmp_path, {"0.jsonl": LATE, "1.jsonl": EARLY}), {1: "SIGKILL"})
        assert [(each.id, each.ranks) for each in report.findings] == [("ranks/lost", (1,))]
        judged_here = [each for each in report.checks if each.stage == "ranks"]
        assert {each.outcome for each in judged_here} == {CheckOutcome.PASS, CheckOutcome.FAIL}

    def test_only_what_was_asked_for_is_judged(self, tmp_path: Path) -> None:
        asked = [check_named("launch/inconsistent-ranks")]
        report = assemble(left(tmp_path, {"0.jsonl": LATE, "1.jsonl": EARLY}), {}, asked)
        assert [each.id for each in report.checks] == ["launch/inconsistent-ranks"]
        assert report.findings == []

    @pytest.mark.parametrize(
        ("entry", "outcome", "words"),
        [
            pytest.param(Crashed(GROUP, "ValueError: 7", "s"), CheckOutcome.ERROR, "7", id="crash"),
            pytest.param(Skipped(GROUP, "no group"), CheckOutcome.SKIP, "no group", id="skip"),
            pytest.param(Measured(GROUP, {"x": 1}, 0.1), CheckOutcome.ERROR, "missing", id="facts"),
            pytest.param(Measured(GROUP, None, 0.1), CheckOutcome.ERROR, "Expected", id="no facts"),
        ],
    )
    def test_whatever_a_check_left_is_told(
        self, entry: Entry, outcome: CheckOutcome, words: str, tmp_path: Path
    ) -> None:
        report = assemble(left(tmp_path, {"0.jsonl": pack(told(0, more=[entry]))}), {})
        record = next(each for each in report.checks if each.id == GROUP)
        assert record.outcome is outcome
        assert words in record.reason
        assert report.verdict is Verdict.INCOMPLETE

    def test_a_stage_of_another_version_is_no_crash(self, tmp_path: Path) -> None:
        files = {"0.jsonl": LATE, "1.jsonl": pack(told(1, "launch", "training"))}
        assert assemble(left(tmp_path, files), {}).verdict is Verdict.INCOMPLETE

    @pytest.mark.parametrize("text", [None, b"", b"{", b"[]", b'{"id": 3}', b"\xff"])
    def test_without_a_start_there_is_no_report(self, text: Any, tmp_path: Path) -> None:
        if text is not None:
            (tmp_path / RUN_NAME).write_bytes(text)
        with pytest.raises(ReportError, match=r"holds neither report\.json nor a started run"):
            assemble(tmp_path, {})

    def test_a_run_without_a_folder_of_ranks_has_lost_them_all(self, tmp_path: Path) -> None:
        (tmp_path / RUN_NAME).write_bytes(jsontext.encode(run_of(3)))
        report = assemble(tmp_path, {})
        assert outcomes(report) == [(0, "lost"), (1, "lost"), (2, "lost")]
        assert {each.reason for each in report.ranks} == {"never came"}
