"""SARIF, against the schema of SARIF 2.1.0."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from render_samples import SAMPLES, ranks, report, run, sample

from ddpcheck.finding import Finding, Location, Severity
from ddpcheck.render.formats import sarif
from ddpcheck.report import Report

SCHEMA = json.loads(
    (Path(__file__).parent / "schemas" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
PATH = "reports/x/report.json"


def run_of(shown: Report, path: str = "") -> dict[str, Any]:
    told: dict[str, Any] = json.loads(sarif.render(shown, path))["runs"][0]
    return told


def result_at(file: str, line: int = 7, path: str = "") -> dict[str, Any]:
    found = Finding(
        id="new/fault", title="t", message="m", fix="f", ranks=(), location=Location(file, line)
    )
    shown = report(run(world_size=1, hosts=()), ranks(1, 1), [], [found])
    told: dict[str, Any] = run_of(shown, path)["results"][0]
    return told


@pytest.mark.parametrize("name", [*SAMPLES, "many_ranks"])
@pytest.mark.parametrize("path", ["", PATH])
def test_is_valid_by_its_schema(name: str, path: str) -> None:
    VALIDATOR.validate(json.loads(sarif.render(sample(name), path)))


def test_the_schema_refuses_what_is_none() -> None:
    told = json.loads(sarif.render(sample("one_rank_dead")))
    told["runs"][0]["results"][0]["level"] = "fatal"
    assert not VALIDATOR.is_valid(told)


def test_a_finding_is_a_result_with_the_manual_as_its_rule() -> None:
    told = run_of(sample("one_rank_dead"))
    (result,) = told["results"]
    rule = told["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert rule["id"] == result["ruleId"] == "ranks/lost"
    assert "dmesg" in rule["help"]["text"]
    assert result["level"] == "error"
    assert "rank 11 died of SIGKILL" in result["message"]["text"]
    assert result["properties"]["hosts"] == ["node1"]


def test_the_levels_are_those_of_sarif() -> None:
    levels = {each["level"] for each in run_of(sample("hostile"))["results"]}
    assert levels == {"error", "warning", "note"}
    assert len(levels) == len(Severity)


def test_a_rule_that_is_not_installed_has_a_title() -> None:
    (rule,) = run_of(sample("diverged"))["tool"]["driver"]["rules"]
    assert rule["shortDescription"]["text"]
    found = Finding(id="new/fault", title="only here", message="m", fix="f", ranks=())
    told = run_of(report(run(world_size=1, hosts=()), ranks(1, 1), [], [found]))
    assert told["tool"]["driver"]["rules"] == [
        {"id": "new/fault", "shortDescription": {"text": "only here"}}
    ]


def test_a_file_below_the_working_directory_has_a_relative_uri() -> None:
    place = result_at(str(Path.cwd() / "my src" / "train#1.py"))["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "my%20src/train%231.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 7},
    }


def test_another_file_has_an_absolute_uri() -> None:
    place = result_at("/opt/a b.py", line=0)["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "file:///opt/a%20b.py"}}


def test_a_finding_without_a_file_lies_in_the_report() -> None:
    (result,) = run_of(sample("one_rank_dead"), PATH)["results"]
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == PATH
    named = {(each["kind"], each["name"]) for each in place["logicalLocations"]}
    assert named == {("host", "node1"), ("rank", "11")}


def test_what_was_incomplete_or_failed_itself_is_a_notification() -> None:
    told = run_of(sample("check_error"))["invocations"][0]
    assert told["executionSuccessful"] is False
    notes = [each["message"]["text"] for each in told["toolExecutionNotifications"]]
    assert notes[0].startswith("verdict: INCOMPLETE")
    assert any("3 buckets, expected 4" in note for note in notes)
    assert run_of(sample("healthy"))["invocations"][0]["executionSuccessful"] is True


def test_what_is_suppressed_is_a_result_with_its_reason() -> None:
    (result,) = run_of(sample("compared"))["results"]
    assert result["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": "a WAN, ticket 7"}
    ]


def test_what_is_worse_than_the_baseline_is_a_notification() -> None:
    (note,) = run_of(sample("compared"))["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("worse than the baseline: speed: all_reduce of 2 MiB")
