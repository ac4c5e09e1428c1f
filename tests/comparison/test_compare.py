"""What changed between two reports: what is told of it, and whether it is worse."""

from typing import Any

import msgspec
import pytest
from two_reports import found, speeds, told

from ddpcheck.change import Change, Course, Part
from ddpcheck.comparison.compare import compare
from ddpcheck.comparison.speed import COLLECTIVES, COMPUTING, STEPS, WATCHED_STEPS
from ddpcheck.configuration import Suppressed
from ddpcheck.finding import Location, Severity
from ddpcheck.report import CheckOutcome, RankOutcome, RankRecord, Report

BOUND = 0.05
WORSE, CHANGED, BETTER = Course
PASS, FAIL, SKIP, BROKEN = CheckOutcome
VERSIONS = "environment/version-mismatch"
VARIABLES = "environment/variables-differ"


def changes(old: Report, new: Report) -> list[Change]:
    return list(compare(old, new, BOUND).changes)


def of(part: Part, old: Report, new: Report) -> list[Change]:
    return [change for change in changes(old, new) if change.part is part]


def measured(check: str, *facts: Any) -> Report:
    return told(facts={check: dict(enumerate(facts))})


def steps(*steps_s: float) -> dict[str, Any]:
    return {"split": {"steps_s": list(steps_s)}}


def test_a_report_and_itself_differ_in_nothing() -> None:
    report = told(
        findings=[found()],
        facts={
            COLLECTIVES: {0: speeds(0.01)},
            VARIABLES: {0: {"values": {"OMP_NUM_THREADS": "1"}}},
        },
    )
    assert changes(report, report) == []
    assert compare(report, report, BOUND).left_out == []
    assert not compare(report, report, BOUND).is_worse


@pytest.mark.parametrize(
    ("severity", "course"),
    [(Severity.ERROR, WORSE), (Severity.WARNING, WORSE), (Severity.INFO, CHANGED)],
)
def test_a_new_finding_is_worse_unless_it_only_informs(severity: Severity, course: Course) -> None:
    checks = {"network/slow-link": FAIL}
    ran = {"network/slow-link": PASS}
    (come,) = of(Part.FINDINGS, told(checks=ran), told(findings=[found(severity)], checks=checks))
    assert (come.course, come.what, come.ranks) == (course, "network/slow-link", [1])
    assert come.now == f"{severity.value}: a link is slow"
    assert (come.before, come.note) == ("", "")


def test_a_finding_that_is_gone_is_better_where_the_check_ran_again() -> None:
    old = told(findings=[found()], checks={"network/slow-link": FAIL})
    (gone,) = of(Part.FINDINGS, old, told(checks={"network/slow-link": PASS}))
    assert (gone.course, gone.now) == (BETTER, "")
    (skipped,) = of(Part.FINDINGS, old, told(checks={"network/slow-link": SKIP}))
    assert (skipped.course, skipped.note) == (CHANGED, "the check does not run now")


@pytest.mark.parametrize(
    "change", [{"ranks": (0, 1)}, {"location": Location("train.py", 3)}, {"id": "network/other"}]
)
def test_another_check_rank_or_place_is_another_finding(change: dict[str, Any]) -> None:
    old, new = told(findings=[found()]), told(findings=[found(**change)])
    assert {each.course for each in of(Part.FINDINGS, old, new)} == {WORSE, CHANGED}


def test_the_same_finding_in_other_words_is_no_change() -> None:
    old, new = told(findings=[found()]), told(findings=[found(message="0.2 GB/s", title="slow")])
    assert changes(old, new) == []


def test_two_findings_where_there_was_one_are_one_more() -> None:
    old, new = told(findings=[found()]), told(findings=[found(), found()])
    assert len(of(Part.FINDINGS, old, new)) == 1


def test_a_finding_that_weighs_more_is_worse() -> None:
    warned, failed = told(findings=[found(Severity.WARNING)]), told(findings=[found()])
    assert [each.course for each in of(Part.FINDINGS, warned, failed)] == [WORSE]
    assert [each.course for each in of(Part.FINDINGS, failed, warned)] == [BETTER]


@pytest.mark.parametrize(
    ("old", "new", "course"),
    [
        (PASS, SKIP, CHANGED),
        (SKIP, PASS, CHANGED),
        (PASS, BROKEN, WORSE),
        (SKIP, BROKEN, WORSE),
        (BROKEN, PASS, BETTER),
    ],
)
def test_checks_that_ended_otherwise(old: CheckOutcome, new: CheckOutcome, course: Course) -> None:
    (change,) = of(Part.CHECKS, told(checks={"a/b": old}), told(checks={"a/b": new}))
    assert (change.course, change.what, change.before, change.now) == (course, "a/b", old, new)


def test_checks_that_are_in_one_report_only_are_counted() -> None:
    old, new = told(checks={"a/b": PASS, "a/c": PASS}), told(checks={"a/b": PASS, "a/d": PASS})
    lines = [(each.what, each.before, each.now) for each in of(Part.CHECKS, old, new)]
    assert lines == [("1 check less", "a/c", ""), ("1 check more", "", "a/d")]


def test_ranks_that_did_not_come_are_worse_and_fewer_that_are_asked_for_are_not() -> None:
    both, lost = told(), told(world_size=1)
    assert [each.course for each in of(Part.RANKS, both, lost)] == [WORSE]
    assert [each.course for each in of(Part.RANKS, lost, both)] == [BETTER]
    fewer = told(hosts={0: "a"})
    assert [(each.course, each.now) for each in of(Part.RANKS, both, fewer)] == [(CHANGED, "1")]


def test_ranks_that_are_gone_are_told_with_the_reason_and_folded() -> None:
    lost = {
        rank: RankRecord(rank=rank, host="a", outcome=RankOutcome.LOST, reason="SIGKILL")
        for rank in (1, 2, 3)
    }
    four = dict.fromkeys(range(4), "a")
    found_changes = compare(told(hosts=four), told(hosts=four, records=lost), BOUND)
    first, second, *_ = found_changes.changes
    assert (first.part, first.before, first.now) == (Part.VERDICT, "pass", "incomplete")
    assert (second.what, second.now, second.note) == ("ranks 1-3", "lost", "SIGKILL")
    assert found_changes.is_worse


def test_a_slower_collective_is_worse_and_a_quicker_one_better() -> None:
    slow, quick = measured(COLLECTIVES, speeds(0.020)), measured(COLLECTIVES, speeds(0.010))
    (worse,) = changes(quick, slow)
    assert (worse.what, worse.course) == ("all_reduce of 2 MiB", WORSE)
    assert (worse.before, worse.now) == ("0.21 GB/s", "0.105 GB/s")
    assert worse.ratio == pytest.approx(-0.5)
    (better,) = changes(slow, quick)
    assert better.course is BETTER
    assert better.ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("took_s", "spread"),
    [
        pytest.param(0.0104, 0.001, id="within the bound"),
        pytest.param(0.0140, 0.9, id="within the noise"),
    ],
)
def test_a_change_within_the_bound_or_the_noise_is_none(took_s: float, spread: float) -> None:
    old, new = (measured(COLLECTIVES, speeds(s, spread)) for s in (0.010, took_s))
    assert changes(old, new) == changes(new, old) == []


def test_what_may_only_have_waited_for_cores_is_not_compared() -> None:
    busy = speeds(0.040)
    busy["speeds"][0]["core_waits"] = 0.8
    quiet = measured(COLLECTIVES, speeds(0.010), speeds(0.010))
    told_of = compare(quiet, measured(COLLECTIVES, speeds(0.030), busy), BOUND)
    assert told_of.changes == []
    assert told_of.left_out == [
        "all_reduce of 2 MiB: slower, but ranks waited for a core for up to 80% of the time"
    ]
    assert compare(quiet, measured(COLLECTIVES, busy, busy), BOUND).changes == []
    others = measured(COLLECTIVES, speeds(0.040), speeds(0.010))
    assert [each.course for each in changes(quiet, others)] == [WORSE]


def test_the_slowest_rank_counts() -> None:
    old = measured(COLLECTIVES, speeds(0.010), speeds(0.020))
    assert changes(old, measured(COLLECTIVES, speeds(0.020), speeds(0.010))) == []


def test_small_messages_have_a_latency() -> None:
    old, new = (measured(COLLECTIVES, speeds(s, size_bytes=1024)) for s in (20e-6, 60e-6))
    assert [(each.before, each.now) for each in changes(old, new)] == [("20 us", "60 us")]


def test_speeds_of_other_ranks_or_another_backend_are_not_compared() -> None:
    facts = {COLLECTIVES: {0: speeds(0.01)}, STEPS: {0: steps(1.0, 1.0, 1.0, 1.0)}}
    old = told(facts=facts)
    more = compare(old, told(facts=facts, world_size=4, requested_world_size=4), BOUND)
    assert more.left_out == [
        "collectives: 4 ranks instead of 2",
        "training steps: 4 ranks instead of 2",
    ]
    other = compare(old, told(facts=facts, backend="nccl"), BOUND)
    assert other.left_out == [
        "collectives: nccl instead of gloo",
        "training steps: nccl instead of gloo",
    ]


def test_facts_of_another_version_are_told_and_harm_nothing() -> None:
    old = measured(COLLECTIVES, {"speeds": [{"kind": 7}]})
    told_of = compare(old, measured(COLLECTIVES, speeds(0.01)), BOUND)
    assert told_of.left_out == ["collectives: a report of another version measured otherwise"]


def test_a_slower_step_is_told_with_its_spread() -> None:
    old, new = (measured(STEPS, steps(*(s * x for x in (1, 1.1, 1.2, 1.3)))) for s in (0.1, 0.2))
    (change,) = changes(old, new)
    assert (change.what, change.before, change.now) == ("training step", "115 ms", "230 ms")
    assert change.note == "spread 13%, now 13%"
    assert change.course is WORSE
    assert change.ratio == pytest.approx(-0.5)


def test_steps_of_an_old_report_have_no_spread() -> None:
    old, new = measured(STEPS, {"split": {"step_s": 0.1}}), measured(STEPS, steps(1, 1, 1, 1))
    assert compare(old, new, BOUND).left_out == [
        "training steps: too few were measured to know how much they vary"
    ]


def test_steps_of_a_watched_script_are_compared_where_it_is_the_same() -> None:
    slow, quick = (
        {"blocks": [[0.0, 0.01, s + at / 100, 1] for at in range(4)]} for s in (0.4, 0.2)
    )
    old, new = measured(WATCHED_STEPS, quick), measured(WATCHED_STEPS, slow)
    assert [each.what for each in changes(old, new)] == ["training step"]
    other = told(facts={WATCHED_STEPS: {0: slow}}, target="other.py")
    assert compare(old, other, BOUND).left_out == ["training steps: other.py instead of "]


def test_a_rank_that_computes_slower_is_named() -> None:
    def paces(*of_ranks: float) -> Report:
        turns = {
            rank: {"kind": "cpu", "turns": {"pace_s": [s * x for x in (1, 1.01, 1.02, 1.03)]}}
            for rank, s in enumerate(of_ranks)
        }
        return told(facts={COMPUTING: turns})

    (change,) = changes(paces(0.010, 0.010), paces(0.010, 0.015))
    assert (change.what, change.ranks, change.course) == ("computing of rank 1", [1], WORSE)


def test_ranks_that_swapped_hosts_are_told_once() -> None:
    old = told(hosts={0: "a", 1: "a", 2: "b", 3: "b"})
    new = told(hosts={0: "b", 1: "b", 2: "a", 3: "a"})
    (change,) = changes(old, new)
    assert (change.what, change.note) == ("ranks 0-1 and ranks 2-3", "they swapped hosts")
    assert (change.before, change.now) == ("on a and b", "on b and a")
    assert change.course is CHANGED


def test_ranks_on_a_new_host_are_told() -> None:
    old, new = told(hosts={0: "a", 1: "b"}), told(hosts={0: "a", 1: "c"})
    (change,) = changes(old, new)
    assert (change.what, change.before, change.now) == ("host of rank 1", "b", "c")


def test_versions_and_variables_are_told_with_the_ranks_that_have_them() -> None:
    def set_to(*values: dict[str, str]) -> Report:
        return told(
            facts={
                VERSIONS: {rank: {"versions": {"torch": "2.13.0"}} for rank in range(2)},
                VARIABLES: {rank: {"values": each} for rank, each in enumerate(values)},
            }
        )

    old = set_to({"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Ring"})
    (everywhere,) = changes(old, set_to({"NCCL_ALGO": "Tree"}, {"NCCL_ALGO": "Tree"}))
    assert (everywhere.what, everywhere.before, everywhere.now) == ("NCCL_ALGO", "Ring", "Tree")
    (one,) = changes(old, set_to({"NCCL_ALGO": "Ring"}, {}))
    assert (one.what, one.now, one.ranks) == ("NCCL_ALGO of rank 1", "not set", [1])


def test_of_search_paths_only_what_differs_is_told() -> None:
    old, new = (
        measured(VARIABLES, {"values": {"PATH": path}}) for path in ("/a:/b:/c", "/a:/d:/c")
    )
    assert [(each.before, each.now) for each in changes(old, new)] == [("/b", "/d")]


def test_what_was_asked_otherwise_is_told_but_not_where_the_report_goes() -> None:
    old = told(command="ddpcheck run --profile full --report-dir a")
    assert changes(old, told(command="ddpcheck run --profile full --report-dir=b")) == []
    (change,) = changes(old, told(command="ddpcheck run --profile quick"))
    assert (change.part, change.what, change.course) == (Part.RUN, "command", CHANGED)


def trained(**changed: Any) -> Report:
    losses = [[step, 4.0 - step / 100] for step in range(0, 200, 10)]
    section = {"strategy": "ddp", "loss": losses, "final_loss": 2.0, "tokens_per_s": 1000.0}
    return told(training={**section, **changed})


def test_a_higher_loss_is_worse_and_slower_training_is_told() -> None:
    (loss,) = changes(trained(), trained(final_loss=2.5))
    assert (loss.course, loss.before, loss.now) == (WORSE, "2.0000", "2.5000")
    (speed,) = changes(trained(), trained(tokens_per_s=700.0))
    assert speed.course is CHANGED
    assert speed.ratio == pytest.approx(-0.3)


@pytest.mark.parametrize(("old", "new", "course"), [(2.0, "nan", WORSE), ("nan", 2.0, BETTER)])
def test_a_training_that_diverged_is_worse(old: object, new: object, course: Course) -> None:
    (loss,) = changes(trained(final_loss=old), trained(final_loss=new))
    assert loss.course is course


def test_a_loss_that_wavers_more_than_it_rose_is_no_worse() -> None:
    wavering = [[step, 2.0 + step % 2] for step in range(20)]
    assert changes(trained(loss=wavering), trained(loss=wavering, final_loss=2.5)) == []


def test_another_training_is_not_compared() -> None:
    told_of = compare(trained(), trained(strategy="fsdp", final_loss=9.0), BOUND)
    assert (told_of.changes, told_of.left_out) == ([], ["training: strategy fsdp instead of ddp"])


def test_the_worst_comes_first() -> None:
    old = told(
        facts={COLLECTIVES: {0: speeds(0.010)}}, launcher="slurm", findings=[found(id="x/y")]
    )
    new = told(facts={COLLECTIVES: {0: speeds(0.020)}}, findings=[found(Severity.INFO)])
    courses = [each.course for each in changes(old, new)]
    assert courses == sorted(courses, key=lambda course: course.order)
    assert courses[0] is WORSE


def test_what_is_suppressed_in_one_report_is_neither_new_nor_gone() -> None:
    shown = told(findings=[found()])
    hidden = msgspec.structs.replace(told(), suppressed=(Suppressed(found(), "ticket 7"),))
    (now,) = of(Part.FINDINGS, shown, hidden)
    assert (now.course, now.now) == (CHANGED, "suppressed: ticket 7")
    (again,) = of(Part.FINDINGS, hidden, shown)
    assert (again.course, again.before) == (CHANGED, "suppressed")
    assert of(Part.FINDINGS, hidden, hidden) == []


def test_facts_that_a_report_of_thousands_left_out_are_told_of() -> None:
    thinned = msgspec.structs.replace(told(), facts_left_out={COLLECTIVES: 4000})
    assert compare(thinned, told(), BOUND).left_out == [
        f"facts that the baseline has of some ranks alone: {COLLECTIVES}"
    ]
    assert compare(told(), thinned, BOUND).left_out == [
        f"facts that this report has of some ranks alone: {COLLECTIVES}"
    ]


def test_facts_that_have_no_names_are_left_out() -> None:
    odd = measured(STEPS, 7, [1], "text")
    assert of(Part.SPEED, odd, measured(STEPS, steps(0.1), steps(0.1), steps(0.1))) == []
