"""Workflow commands: one line each, escaped, at most ten of a kind, the worst first."""

import re
from pathlib import Path

import pytest
from render_samples import crowd, healthy, hostile, incomplete, ranks, report, run, sample

from ddpcheck.finding import Finding, Location, Severity
from ddpcheck.render.formats import github
from ddpcheck.report import Report

COMMAND = re.compile(r"::(error|warning|notice) ((?:[a-z]+=[^,:\r\n]*,?)+)::([^\r\n]*)")


def with_finding(**changes: object) -> Report:
    settings = {"title": "t", "message": "m", "fix": "f", "ranks": (0,), "id": "launch/fault"}
    found = Finding(**{**settings, **changes})  # type: ignore[arg-type]
    return report(run(world_size=1, hosts=()), ranks(1, 1), [], [found])


def lines_of(shown: Report) -> list[str]:
    return github.render(shown).splitlines()


@pytest.mark.parametrize("name", ["healthy", "failing", "hostile", "one_rank_dead", "many_ranks"])
def test_every_line_is_one_command(name: str) -> None:
    lines = github.render(sample(name)).split("\n")
    assert lines.pop() == ""
    assert lines
    assert all(COMMAND.fullmatch(line) for line in lines)


def test_errors_come_before_warnings_before_notices() -> None:
    kinds = [line.split(" ")[0] for line in lines_of(sample("many_ranks"))]
    assert kinds == ["::error"] * 3 + ["::warning"]


def test_there_is_always_a_verdict() -> None:
    assert lines_of(healthy()) == [
        "::notice title=ddpcheck::verdict: PASS, 0 errors, 0 warnings, 2 skipped"
    ]
    assert lines_of(incomplete())[0].startswith("::error title=ddpcheck::verdict: INCOMPLETE")


def test_no_more_than_github_shows_and_the_rest_is_counted() -> None:
    lines = lines_of(crowd(8, findings=60))
    for kind, hidden in (("error", 12), ("warning", 11), ("notice", 11)):
        own = [line for line in lines if line.startswith(f"::{kind}")]
        assert len(own) == github.MOST_OF_A_KIND
        assert own[-1] == f"::{kind} title=ddpcheck::and {hidden} more {kind}s in report.json"


def test_a_check_that_failed_itself_is_an_error() -> None:
    assert any(
        "bucket-views%3A the check itself" in line for line in lines_of(sample("check_error"))
    )


def test_what_ends_a_property_or_a_line_is_escaped() -> None:
    shown = github.render(with_finding(title="a: b, 5%", message="100%\r\nnext: a, b"))
    line = shown.splitlines()[0]
    assert "title=launch/fault%3A a%3A b%2C 5%25::" in line
    assert line.endswith("%0A100%25%0Anext: a, b%0Afix: f")


def test_a_file_below_the_working_directory_is_named_from_there() -> None:
    file = str(Path.cwd() / "src" / "train.py")
    assert "::error file=src/train.py,line=41,title=" in github.render(
        with_finding(location=Location(file, 41))
    )
    assert "file=/opt/x.py,line=1," in github.render(
        with_finding(location=Location("/opt/x.py", 0))
    )


def test_informations_are_notices() -> None:
    assert github.render(with_finding(severity=Severity.INFO)).startswith("::notice")


def test_hostile_text_starts_no_second_command() -> None:
    assert "\x1b" not in github.render(hostile())
    shown = github.render(with_finding(message="x\n::error::y\r::stop-commands::z"))
    assert len(shown.splitlines()) == 2


def test_what_is_worse_than_the_baseline_is_an_error() -> None:
    lines = lines_of(sample("compared"))
    assert lines[0].startswith("::error title=ddpcheck%3A worse than the baseline::speed: ")
    assert lines[1].endswith(", 1 worse than the baseline")
