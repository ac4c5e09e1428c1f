"""What changed between two reports, as text, markdown and JSON: bounded, and harmless."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from two_reports import found, speeds, told

from ddpcheck.change import Change, Comparison, Course, Part
from ddpcheck.comparison.compare import compare
from ddpcheck.comparison.speed import COLLECTIVES
from ddpcheck.render import render
from ddpcheck.render.comparison import WIDTH, change_lines, render_comparison
from ddpcheck.report import Report

OLD = told(facts={COLLECTIVES: {0: speeds(0.010)}}, id="ddpcheck-old")
NEW = told(findings=[found()], facts={COLLECTIVES: {0: speeds(0.020)}}, launcher="slurm", id="new")
TEXT = """\
before   PASS | ddpcheck 0.1.0 | 2 ranks on 1 host | gloo | torch 2.13.0 | profile standard |
         ddpcheck-old
now      FAIL | ddpcheck 0.1.0 | 2 ranks on 1 host | gloo | torch 2.13.0 | profile standard | new
worse    verdict: verdict: pass -> fail
worse    findings: network/slow-link (rank 1): new: error: a link is slow; the check did not run
         before
worse    speed: all_reduce of 2 MiB: 0.21 GB/s -> 0.105 GB/s (-50 %); spread 5%, now 5%
changed  run: launcher: torchrun -> slurm
diff: WORSE, 3 worse, 1 changed, 0 better (bound 5 % and the noise of both runs)
"""


def shown(old: Report, new: Report, format_name: str = "text") -> str:
    return render_comparison(compare(old, new, 0.05), format_name, old, new)


def test_the_worst_comes_first_and_the_result_last() -> None:
    assert shown(OLD, NEW) == TEXT


def test_nothing_is_told_of_reports_that_are_alike() -> None:
    lines = shown(OLD, OLD).splitlines()
    assert lines[-1].startswith("diff: NOT WORSE, 0 worse, 0 changed, 0 better")
    assert not any(line.startswith(("worse", "changed", "better", "not")) for line in lines[:-1])


def test_the_json_has_all_of_it() -> None:
    plain = msgspec.json.decode(shown(OLD, NEW, "json"))
    assert (plain["worse"], plain["counts"]) == (True, {"worse": 3, "changed": 1, "better": 0})
    assert msgspec.convert(plain, Comparison) == msgspec.convert(
        msgspec.to_builtins(compare(OLD, NEW, 0.05)), Comparison
    )


def test_markdown_begins_with_the_result_and_cannot_be_left() -> None:
    hostile = told(command="```\n# heading", launcher="``` @octocat")
    text = shown(OLD, hostile, "markdown")
    assert text.startswith("**diff: NOT WORSE, ")
    assert [line for line in text.splitlines() if line.startswith("```")] == ["```text", "```"]


@pytest.mark.parametrize("format_name", ["text", "markdown", "json"])
def test_many_changes_are_counted_and_bounded(format_name: str) -> None:
    change = Change(part=Part.RUN, what="a word " * 9, before="b" * 5000, now="c" * 5000)
    many = Comparison(before="a", now="b", bound_ratio=0.05, changes=[change] * 900)
    text = render_comparison(many, format_name, OLD, NEW)
    if format_name == "json":
        assert len(msgspec.json.decode(text)["changes"]) == 900
    else:
        assert "840 more changes: --format json has all" in text
        assert len(text) < 60_000


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=300))
def test_no_text_from_elsewhere_breaks_the_page(hostile: str) -> None:
    changes = [
        Change(part=Part.RUN, what=hostile, before=hostile, now=hostile, note=hostile, course=each)
        for each in Course
    ]
    told_of = Comparison(
        before=hostile, now=hostile, bound_ratio=0.05, changes=changes, left_out=[hostile]
    )
    lines = change_lines(told_of)
    assert all(line.isascii() and line.isprintable() and len(line) <= WIDTH for line in lines)


@pytest.mark.parametrize("format_name", ["text", "markdown"])
def test_a_report_tells_what_changed_against_its_baseline(format_name: str) -> None:
    plain = render(NEW, format_name)
    compared = msgspec.structs.replace(NEW, changes=compare(OLD, NEW, 0.05))
    text = render(compared, format_name)
    assert "baseline" not in plain
    assert "gainst the baseline" in text
    assert "diff: WORSE, 3 worse" in text
    place = -1 if format_name == "text" else 0
    verdicts = [told.splitlines()[place].strip("*") for told in (plain, text)]
    assert verdicts[1] == f"{verdicts[0]}, 3 worse than the baseline"


def test_a_report_without_a_baseline_has_no_changes_in_its_json() -> None:
    assert "changes" not in msgspec.json.decode(render(NEW, "json"))
    compared = msgspec.structs.replace(NEW, changes=compare(OLD, NEW, 0.05))
    assert len(msgspec.json.decode(render(compared, "json"))["changes"]["changes"]) == 4
