"""Today's judges on an old report: what they say anew, and what stays."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgspec
from msgspec.structs import replace
from two_reports import found, told

from ddpcheck.catalogue import catalogue
from ddpcheck.check import Check, Stage
from ddpcheck.configuration import Configuration, Suppression
from ddpcheck.engine.rejudging import rejudged
from ddpcheck.finding import Finding, Recommendation, Severity
from ddpcheck.report import CheckOutcome, RankOutcome, RankRecord, Report, Verdict

ID = "network/slow-link"
PASS, FAIL, SKIP, BROKEN = CheckOutcome


class Facts(msgspec.Struct, frozen=True):
    gbps: float


class Judge(ModuleType):
    """A check that calls everything below ``limit`` slow."""

    def __init__(self, limit: float) -> None:
        super().__init__("judge")
        self.limit = limit

    def judge(self, facts: Mapping[int, Facts]) -> list[Finding]:
        slow = tuple(rank for rank, own in facts.items() if own.gbps < self.limit)
        return [found(ranks=slow, title="slow today")] if slow else []

    def summarize(self, facts: Mapping[int, Facts]) -> str:
        return f"{len(facts)} ranks"

    def recommend(self, _facts: Mapping[int, Facts]) -> dict[str, Recommendation]:
        return {"backend": Recommendation("gloo", "today")}


def check(limit: float) -> Check:
    return Check(ID, Stage.NETWORK, "A fault", "", Facts, Judge(limit))


def old(facts: Any, **changes: Any) -> Report:
    report = told(checks={ID: PASS}, facts={ID: facts})
    return replace(report, recommendation={"precision": Recommendation("fp32", "old")}, **changes)


FACTS = {0: {"gbps": 9.0, "newer": [1]}, 1: {"gbps": 1.0}}


def test_a_stricter_judge_finds_what_the_old_one_did_not() -> None:
    report = rejudged(old(FACTS), [check(5.0)])
    assert [(each.id, each.ranks, each.title) for each in report.findings] == [
        (ID, (1,), "slow today")
    ]
    assert report.verdict is Verdict.FAIL
    assert (report.checks[0].outcome, report.checks[0].summary) == (FAIL, "2 ranks")
    assert [record.outcome for record in report.ranks] == [RankOutcome.OK, RankOutcome.FAILED]
    assert report.ranks[1].reason == f"{ID}: slow today"


def test_a_milder_judge_takes_the_old_finding_back() -> None:
    blamed = RankRecord(
        rank=1, host="a", device="cpu", outcome=RankOutcome.FAILED, reason=f"{ID}: a link is slow"
    )
    before = told(checks={ID: FAIL}, facts={ID: FACTS}, findings=[found()], records={1: blamed})
    report = rejudged(before, [check(0.5)])
    assert (report.findings, report.verdict) == ([], Verdict.PASS)
    assert [record.outcome for record in report.ranks] == [RankOutcome.OK, RankOutcome.OK]


def test_the_facts_stay_as_they_are_with_fields_that_are_unknown() -> None:
    before = old(FACTS)
    assert rejudged(before, [check(5.0)]).facts == before.facts
    assert rejudged(replace(before, later={"sky": 1}), [check(5.0)]).later == {"sky": 1}


def test_facts_of_another_shape_keep_their_findings_and_say_so() -> None:
    before = replace(old({0: {"speed": 1.0}}), findings=[found(Severity.WARNING)])
    report = rejudged(before, [check(5.0)])
    assert report.findings == before.findings
    assert report.verdict is Verdict.WARN
    assert report.checks[0].outcome is PASS
    assert report.checks[0].reason.startswith(
        "not judged again: its facts are those of another version: "
    )


def test_facts_that_the_report_has_only_in_part_keep_their_findings_and_say_so() -> None:
    before = replace(old(FACTS), findings=[found()], facts_left_out={ID: 4094})
    report = rejudged(before, [check(0.5)])
    assert report.findings == before.findings
    assert report.checks[0].reason == "not judged again: the facts of 4094 ranks are not kept"


def test_a_check_that_is_no_more_keeps_its_findings_and_says_so() -> None:
    report = rejudged(replace(old(FACTS), findings=[found()]), [])
    assert report.findings == [found()]
    assert report.checks[0].reason == "not judged again: there is no such check any more"


def test_what_measured_nothing_and_what_was_disregarded_stay() -> None:
    before = told(checks={ID: SKIP}, findings=[found(id="ranks/lost")])
    assert rejudged(before, [check(5.0)]).checks == before.checks
    ignored = old(FACTS)
    ignored = replace(
        ignored,
        checks=[replace(ignored.checks[0], outcome=SKIP, reason="disregarded: rank 1 left")],
    )
    assert rejudged(ignored, [check(5.0)]).checks == ignored.checks


def test_a_check_that_raised_on_a_rank_is_still_an_error() -> None:
    before = old({0: {"gbps": 9.0}})
    before = replace(
        before,
        checks=[replace(before.checks[0], outcome=BROKEN, reason="raised on rank 1: KeyError")],
    )
    (record,) = rejudged(before, [check(5.0)]).checks
    assert (record.outcome, record.reason) == (BROKEN, "raised on rank 1: KeyError")


def test_a_judge_that_raised_then_and_not_today_is_no_error_any_more() -> None:
    before = old(FACTS)
    reason = "its judge raised ZeroDivisionError: division by zero"
    before = replace(before, checks=[replace(before.checks[0], outcome=BROKEN, reason=reason)])
    (record,) = rejudged(before, [check(0.5)]).checks
    assert (record.outcome, record.reason) == (PASS, "")


def test_ranks_that_are_gone_stay_gone() -> None:
    lost = RankRecord(rank=1, outcome=RankOutcome.LOST, reason="SIGKILL")
    before = told(checks={ID: PASS}, facts={ID: {0: {"gbps": 9.0}}}, records={1: lost})
    report = rejudged(before, [check(5.0)])
    assert report.ranks[1] == lost
    assert report.verdict is Verdict.INCOMPLETE


def test_recommendations_of_today_come_first_and_others_stay() -> None:
    advice = rejudged(old(FACTS), [check(5.0)]).recommendation
    assert {name: each.reason for name, each in advice.items()} == {
        "precision": "old",
        "backend": "today",
    }


def test_the_testimonies_of_ranks_are_judged_again_too() -> None:
    raised = {"state": "raised", "check": ID, "error": "ValueError: x", "order": 1}
    before = told(checks={"ranks/raised": PASS}, facts={"ranks/raised": {0: {}, 1: raised}})
    (finding,) = rejudged(before, catalogue()).findings
    assert (finding.id, finding.ranks) == ("ranks/raised", (1,))


def test_what_the_runs_settings_suppress_stays_suppressed() -> None:
    before = old(FACTS)
    asked = Configuration(
        file="ddpcheck.toml", suppress=[Suppression(check=ID, reason="a known link")]
    )
    before = replace(before, run=replace(before.run, configuration=asked))
    report = rejudged(before, [check(5.0)])
    assert (report.findings, report.verdict) == ([], Verdict.PASS)
    assert [each.reason for each in report.suppressed] == ["a known link"]
    assert rejudged(report, []).suppressed == report.suppressed
