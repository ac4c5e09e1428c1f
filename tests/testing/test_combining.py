"""Reports of several ranks made one, without ranks."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ddpcheck.testing.combining import Outcome, combined

VICTIM = "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:1"


def item(*, pdb: bool = False) -> pytest.Item:
    config = SimpleNamespace(option=SimpleNamespace(usepdb=pdb))
    plain = SimpleNamespace(nodeid="t.py::t", location=("t.py", 1, "t"), keywords={}, config=config)
    return cast(pytest.Item, plain)


def report(when: Any, outcome: Any = "passed", told: Any = None, **more: Any) -> pytest.TestReport:
    return pytest.TestReport("t.py::t", ("t.py", 1, "t"), {}, outcome, told, when, **more)


def outcome(size: int, calls: dict[int, pytest.TestReport], **more: Any) -> Outcome:
    seen = Outcome(size, **more)
    for rank, call in calls.items():
        seen.take(rank, report("setup"))
        seen.take(rank, call)
        seen.take(rank, report("teardown"))
        seen.done[rank] = ""
    return seen


def of_call(seen: Outcome) -> pytest.TestReport:
    return next(each for each in combined(item(), seen) if each.when == "call")


def test_what_all_pass_passes_once_with_the_longest_duration() -> None:
    seen = outcome(2, {0: report("call", duration=1.0), 1: report("call", duration=2.0)})
    reports = combined(item(), seen)
    assert [(each.when, each.outcome) for each in reports] == [
        ("setup", "passed"),
        ("call", "passed"),
        ("teardown", "passed"),
    ]
    assert reports[1].duration == 2.0
    assert not seen.is_poisoned()


def test_the_culprit_is_who_failed_by_itself_not_the_first() -> None:
    seen = outcome(
        2, {0: report("call", "failed", VICTIM), 1: report("call", "failed", "assert 1 == 2")}
    )
    call = of_call(seen)
    assert call.longrepr == "assert 1 == 2"
    assert ("ranks", f"rank 0: {VICTIM} (its peer had failed)") in call.sections
    assert seen.is_poisoned()


def test_where_all_are_victims_the_first_is_shown() -> None:
    seen = outcome(2, {0: report("call", "failed", VICTIM), 1: report("call", "failed", VICTIM)})
    assert of_call(seen).longrepr == VICTIM


def test_what_several_have_written_alike_is_shown_once() -> None:
    written = [("Captured stdout call", "hello\n")]
    own = [("Captured stdout call", "mine\n")]
    calls = {rank: report("call", sections=written) for rank in range(3)}
    assert of_call(outcome(3, calls)).sections == written
    calls[2] = report("call", sections=own)
    assert of_call(outcome(3, calls)).sections == [
        ("Captured stdout call, ranks 0-1", "hello\n"),
        ("Captured stdout call, rank 2", "mine\n"),
    ]


def test_a_rank_that_is_gone_fails_a_test_that_the_others_pass() -> None:
    seen = outcome(2, {0: report("call")})
    seen.ended[1] = "SIGKILL"
    call = of_call(seen)
    assert call.failed
    assert call.longrepr == "rank 1 was ended by SIGKILL"
    assert seen.is_poisoned()


def test_a_hang_in_the_setup_fails_though_no_body_ran() -> None:
    seen = Outcome(2)
    seen.take(0, report("setup"))
    seen.hang = "t does not end:"
    reports = combined(item(), seen)
    assert [each.when for each in reports if each.failed] == ["call"]


def test_a_skip_needs_all_ranks() -> None:
    skipped = report("call", "skipped", ("t.py", 3, "Skipped: no GPU"))
    assert of_call(outcome(2, {0: skipped, 1: skipped})).skipped
    some = of_call(outcome(2, {0: report("call"), 1: skipped}))
    assert some.failed
    assert some.longrepr == "rank 1 skipped the test, and rank 0 did not: Skipped: no GPU"


def test_what_is_left_changed_poisons() -> None:
    seen = outcome(1, {0: report("call")})
    seen.done[0] = "the working directory"
    assert of_call(seen).passed
    assert seen.is_poisoned()


@pytest.mark.parametrize("pdb", [True, False])
def test_pdb_is_told_to_be_of_no_use(pdb: bool) -> None:
    seen = outcome(1, {0: report("call", "failed", "assert 0")})
    call = combined(item(pdb=pdb), seen)[1]
    assert any("--pdb" in text for _, text in call.sections) is pdb


def expected_failure(told: str = "assert 0") -> pytest.TestReport:
    failure = report("call", "skipped", told)
    failure.wasxfail = "known"
    return failure


@pytest.mark.parametrize("others", ["[XPASS(strict)] known", "Failed: Unexpected success", VICTIM])
def test_an_expected_failure_need_not_be_of_all_ranks(others: str) -> None:
    calls = {0: report("call", "failed", others), 1: expected_failure(), 2: report("call")}
    call = of_call(outcome(3, calls))
    assert (call.outcome, call.longrepr) == ("skipped", "assert 0")


def test_a_failure_that_nobody_expected_counts() -> None:
    calls = {0: expected_failure(), 1: report("call", "failed", "TypeError: no")}
    assert of_call(outcome(2, calls)).longrepr == "TypeError: no"


def test_peers_that_hang_after_an_expected_failure_belong_to_it() -> None:
    seen = outcome(2, {0: expected_failure()})
    seen.called[0], seen.hang = "failed", "t does not end:"
    assert of_call(seen).outcome == "skipped"
    assert seen.is_poisoned()
    seen.ended[1] = "SIGSEGV"
    assert of_call(seen).failed


def test_where_all_that_failed_are_victims_who_died_is_named_first() -> None:
    crash = SimpleNamespace(message=VICTIM)
    longrepr = SimpleNamespace(reprcrash=crash, addsection=print)
    seen = outcome(2, {0: report("call", "failed", longrepr)})
    seen.ended[1] = "SIGKILL"
    of_call(seen)
    assert crash.message == f"rank 1 was ended by SIGKILL; [rank 0 of 2] {VICTIM}"


def test_a_body_counts_for_nothing_where_one_rank_could_not_begin() -> None:
    seen = outcome(2, {0: report("call")})
    seen.take(1, report("setup", "failed", "no disk"))
    seen.done[1] = ""
    assert [(each.when, each.outcome) for each in combined(item(), seen)] == [
        ("setup", "failed"),
        ("teardown", "passed"),
    ]
