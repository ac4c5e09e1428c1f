"""Judging: from what ranks told to records and findings, whatever is missing."""

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import msgspec
import pytest

from ddpcheck.catalogue import validated
from ddpcheck.check import Check
from ddpcheck.engine.entries import (
    Began,
    Crashed,
    Entry,
    Measured,
    Skipped,
    pack,
    unpack_sealed,
)
from ddpcheck.engine.judging import by_check, disregarded, judge_check, judge_checks, not_run
from ddpcheck.engine.thinning import thinned
from ddpcheck.finding import Finding, Recommendation, Severity
from ddpcheck.report import CheckOutcome, FoldedFact

MANUAL = """A number is odd.

Why it matters
    It is odd.
What to do
    Add one.
"""
ID = "network/odd-number"


class Number(msgspec.Struct, frozen=True):
    number: int


def odd_is(severity: Severity) -> Callable[[Mapping[int, Number]], list[Finding]]:
    def judge(facts: Mapping[int, Number]) -> list[Finding]:
        odd = tuple(rank for rank, fact in facts.items() if fact.number % 2)
        found = Finding(title="odd", message="odd", fix="add 1", ranks=odd, severity=severity)
        return [found] if odd else []

    return judge


def make_check(**changes: Any) -> Check:
    module = ModuleType("checks.network.odd_number", MANUAL)
    module.__dict__.update(
        {"Facts": Number, "probe": print, "judge": odd_is(Severity.ERROR), **changes}
    )
    return validated(module)


def measured(number: Any, duration_s: float = 0.5, check_id: str = ID) -> list[Entry]:
    return [Began(check_id, 0.0), Measured(check_id, {"number": number}, duration_s)]


CRASHED: list[Entry] = [Began(ID, 0.0), Crashed(ID, "ValueError: 7", "probe line 3")]
NO_GPU: list[Entry] = [Skipped(ID, "there is no GPU")]
SILENT: list[Entry] = [Began(ID, 0.0)]


def test_nothing_found_is_a_pass() -> None:
    judged = judge_check(make_check(), {0: measured(2), 1: measured(4)})
    assert judged.record.outcome is CheckOutcome.PASS
    assert (judged.findings, judged.has_error, judged.crashed_ranks) == ([], False, ())


def test_an_error_fails_the_check_and_carries_its_id() -> None:
    judged = judge_check(make_check(), {0: measured(2), 1: measured(3)})
    assert judged.record.outcome is CheckOutcome.FAIL
    assert [(each.id, each.ranks) for each in judged.findings] == [(ID, (1,))]
    assert judged.has_error


def test_a_warning_fails_the_check_without_an_error() -> None:
    judged = judge_check(make_check(judge=odd_is(Severity.WARNING)), {0: measured(1)})
    assert judged.record.outcome is CheckOutcome.FAIL
    assert not judged.has_error


def test_information_leaves_a_pass() -> None:
    judged = judge_check(make_check(judge=odd_is(Severity.INFO)), {0: measured(1)})
    assert judged.record.outcome is CheckOutcome.PASS
    assert len(judged.findings) == 1


def _counted_in_words(facts: Mapping[int, Number]) -> str:
    return f"{len(facts)} numbers"


def _recommended(facts: Mapping[int, Number]) -> dict[str, Recommendation]:
    return {"number": Recommendation(len(facts), "counted")}


def test_the_record_says_what_was_seen_and_takes_the_slowest_rank() -> None:
    check = make_check(
        summarize=_counted_in_words,
        recommend=_recommended,
    )
    judged = judge_check(check, {0: measured(2, 0.1), 1: measured(2, 0.30004), 2: measured(4)})
    assert judged.record.summary == "3 numbers"
    assert judged.record.duration_s == 0.5
    assert judged.recommendation == {"number": Recommendation(3, "counted")}
    assert judged.facts == [FoldedFact((0, 1), {"number": 2}), FoldedFact((2,), {"number": 4})]


@pytest.mark.parametrize("silent", [[], SILENT])
def test_ranks_that_told_nothing_are_judged_without(silent: list[Entry]) -> None:
    judged = judge_check(make_check(), {0: measured(2), 1: silent})
    assert judged.record.outcome is CheckOutcome.PASS
    assert [fact.ranks for fact in judged.facts] == [(0,)]


@pytest.mark.parametrize("entries", [{}, {0: []}, {0: SILENT, 1: SILENT}])
def test_a_check_that_no_rank_told_of_is_skipped(entries: dict[int, list[Entry]]) -> None:
    judged = judge_check(make_check(), entries)
    assert judged.record.outcome is CheckOutcome.SKIP
    assert judged.record.reason == "no rank came to it"


def test_entries_of_other_checks_do_not_count() -> None:
    judged = judge_check(make_check(), {0: measured(3, check_id="network/another")})
    assert judged.record.outcome is CheckOutcome.SKIP


def test_a_skip_is_no_pass_and_says_every_reason_once() -> None:
    elsewhere: list[Entry] = [Skipped(ID, "no network")]
    judged = judge_check(make_check(), {0: NO_GPU, 1: NO_GPU, 2: elsewhere})
    assert judged.record.outcome is CheckOutcome.SKIP
    assert judged.record.reason == "there is no GPU; no network"


def test_a_skip_on_one_rank_leaves_the_others_judged() -> None:
    judged = judge_check(make_check(), {0: NO_GPU, 1: measured(3)})
    assert judged.record.outcome is CheckOutcome.FAIL


def test_a_crash_on_one_rank_is_an_error_that_names_it() -> None:
    judged = judge_check(make_check(), {0: measured(2), 1: CRASHED, 2: measured(4)})
    assert judged.record.outcome is CheckOutcome.ERROR
    assert judged.record.reason == "raised on rank 1: ValueError: 7\nprobe line 3"
    assert judged.crashed_ranks == (1,)
    assert [fact.ranks for fact in judged.facts] == [(0,), (2,)]


def test_an_error_that_was_found_outweighs_a_crash() -> None:
    judged = judge_check(make_check(), {0: measured(3), 1: CRASHED})
    assert judged.record.outcome is CheckOutcome.FAIL
    assert judged.record.reason.startswith("raised on rank 1: ")
    assert judged.crashed_ranks == (1,)


def test_a_warning_does_not_outweigh_a_crash() -> None:
    check = make_check(judge=odd_is(Severity.WARNING))
    judged = judge_check(check, {0: measured(3), 1: CRASHED})
    assert judged.record.outcome is CheckOutcome.ERROR
    assert len(judged.findings) == 1


@pytest.mark.parametrize("other", [CRASHED, NO_GPU, SILENT])
def test_a_crash_without_any_facts_is_an_error(other: list[Entry]) -> None:
    judged = judge_check(make_check(), {0: CRASHED, 1: other})
    assert judged.record.outcome is CheckOutcome.ERROR
    assert 0 in judged.crashed_ranks


def _raises(_facts: Mapping[int, Number]) -> list[Finding]:
    raise KeyError("no\nsuch rank")


@pytest.mark.parametrize("function", ["judge", "summarize", "recommend"])
def test_a_judge_that_raises_is_an_error(function: str) -> None:
    judged = judge_check(make_check(**{function: _raises}), {0: measured(2)})
    first, *stack = judged.record.reason.splitlines()
    assert judged.record.outcome is CheckOutcome.ERROR
    assert first == r"its judge raised KeyError: 'no\nsuch rank'"
    assert "in _raises" in "\n".join(stack)


@pytest.mark.parametrize("answer", [None, 7, ["a finding"]])
def test_a_judge_that_returns_no_findings_is_an_error(answer: Any) -> None:
    def judge(_facts: Mapping[int, Number]) -> Any:
        return answer

    judged = judge_check(make_check(judge=judge), {0: measured(2)})
    assert judged.record.outcome is CheckOutcome.ERROR


def test_facts_that_do_not_fit_their_type_are_an_error() -> None:
    judged = judge_check(make_check(), {0: measured(2), 1: measured("three")})
    assert judged.record.outcome is CheckOutcome.ERROR
    assert "Expected `int`, got `str`" in judged.record.reason


def test_a_check_that_was_not_reached_is_skipped_with_the_reason() -> None:
    judged = not_run(make_check(), "network failed")
    assert judged.record.outcome is CheckOutcome.SKIP
    assert (judged.record.id, judged.record.stage) == (ID, "network")
    assert judged.record.reason == "network failed"


@pytest.mark.parametrize("number", [2, 3])
def test_a_judgement_that_is_disregarded_says_nothing_but_keeps_its_facts(number: int) -> None:
    check = make_check(summarize=_counted_in_words, recommend=_recommended)
    whole = judge_check(check, {0: measured(2), 1: measured(number)})
    left = disregarded(whole, "rank 1 called other collectives")
    assert left.record.outcome is CheckOutcome.SKIP
    assert left.record.reason == "disregarded: rank 1 called other collectives"
    assert (left.findings, left.recommendation, left.record.summary) == ((), {}, "")
    assert left.facts == whole.facts != []


def test_what_crashed_stays_told_when_the_rest_is_disregarded() -> None:
    left = disregarded(judge_check(make_check(), {0: measured(2), 1: CRASHED}), "why")
    assert left.record.reason.splitlines() == [
        "raised on rank 1: ValueError: 7",
        "probe line 3",
        "disregarded: why",
    ]


def test_facts_that_came_as_json_are_judged_like_plain_ones() -> None:
    entries: dict[int, list[Entry]] = {0: measured(2), 1: measured(3), 2: measured(3)}
    blobs = map(pack, entries.values())
    (sealed,) = [judge_checks([make_check()], by_check(dict(enumerate(unpack_sealed(blobs)))))]
    plain = judge_check(make_check(), entries)
    assert sealed[0].findings == plain.findings
    assert sealed[0].record == plain.record
    assert thinned({ID: sealed[0].told}) == thinned({ID: plain.told})


def test_the_entries_of_each_rank_are_gone_through_once_for_all_checks() -> None:
    seen: list[int] = []

    def told(rank: int) -> Iterator[Entry]:
        seen.append(rank)
        yield from measured(2)

    about = by_check({rank: told(rank) for rank in range(3)})
    assert seen == [0, 1, 2]
    assert {check: sorted(each.measured) for check, each in about.items()} == {ID: [0, 1, 2]}


def test_equal_facts_are_read_once_and_long_lists_kept_once() -> None:
    class Member(msgspec.Struct, frozen=True):
        number: int
        group: tuple[int, ...]

    given: list[Mapping[int, Member]] = []

    def judge(facts: Mapping[int, Member]) -> list[Finding]:
        given.append(facts)
        return []

    check = make_check(Facts=Member, judge=judge)
    group = list(range(1000))
    facts = [{"number": rank // 2, "group": group} for rank in range(4)]
    blobs = [pack([Measured(ID, each, 0.1)]) for each in facts]
    judge_checks([check], by_check(dict(enumerate(unpack_sealed(blobs)))))
    (told,) = given
    assert [each.number for each in told.values()] == [0, 0, 1, 1]
    assert told[0] is told[1]
    assert told[0].group is told[2].group


def test_ranks_that_a_finding_names_are_essential_and_so_is_the_first() -> None:
    entries = {rank: measured(3 if rank == 5 else 2) for rank in range(10)}
    assert judge_check(make_check(), entries).essential_ranks == [0, 5]
    of_all = {rank: measured(3) for rank in range(10)}
    assert judge_check(make_check(), of_all).essential_ranks == [0]
    chosen = make_check(representatives=_last_of)
    assert judge_check(chosen, of_all).essential_ranks == [0, 9]


def _last_of(facts: Mapping[int, Number]) -> set[int]:
    return {max(facts)}
