"""JUnit XML, against the schema of Jenkins' xUnit plugin."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import xmlschema
from render_samples import SAMPLES, crowd, ranks, report, run, sample
from sample_parts import check

from ddpcheck.finding import Finding, Severity
from ddpcheck.render.formats import junit

SCHEMA = xmlschema.XMLSchema(Path(__file__).parent / "schemas" / "junit-10.xsd")


def case_of(root: ET.Element, name: str) -> ET.Element:
    return next(each for each in root.iter("testcase") if each.get("name") == name)


@pytest.mark.parametrize("name", [*SAMPLES, "many_ranks"])
def test_is_valid_by_its_schema(name: str) -> None:
    SCHEMA.validate(junit.render(sample(name), "reports/x/report.json"))


def test_the_schema_refuses_what_is_none() -> None:
    text = junit.render(sample("healthy")).replace("testcase name=", "testcase title=")
    assert not SCHEMA.is_valid(text)


@pytest.mark.parametrize("name", [*SAMPLES, "many_ranks"])
def test_there_is_a_case_a_check_and_one_for_the_verdict(name: str) -> None:
    shown = sample(name)
    cases = list(ET.fromstring(junit.render(shown)).iter("testcase"))
    assert len(cases) == len(shown.checks) + 1 + bool(shown.changes)


def test_what_is_worse_than_the_baseline_is_a_failure() -> None:
    worse = case_of(ET.fromstring(junit.render(sample("compared"))), "baseline")
    told = worse.find("failure")
    assert told is not None
    assert (told.text or "").startswith("speed: all_reduce of 2 MiB: 0.21 GB/s -> 0.105 GB/s")


def test_the_counts_are_those_of_the_cases() -> None:
    root = ET.fromstring(junit.render(sample("one_rank_dead")))
    for tag, count in (("failure", "failures"), ("error", "errors"), ("testcase", "tests")):
        assert int(root.get(count, "")) == len(list(root.iter(tag)))
    skipped = sum(int(each.get("skipped", "")) for each in root.iter("testsuite"))
    assert skipped == len(list(root.iter("skipped"))) == 2


def test_a_skip_is_a_skip_with_its_reason() -> None:
    case = case_of(ET.fromstring(junit.render(sample("healthy"))), "devices/gpu-shared")
    assert [(each.tag, each.get("message")) for each in case] == [("skipped", "there is no GPU")]


def test_an_error_is_a_failure_and_a_warning_is_told() -> None:
    root = ET.fromstring(junit.render(sample("failing")))
    failure = case_of(root, "network/hostname-is-loopback").find("failure")
    assert failure is not None
    assert failure.get("message") == "A host resolves its own name to a loopback address"
    assert "127.0.1.1" in (failure.text or "")
    assert "fix: export GLOO_SOCKET_IFNAME" in (failure.text or "")
    warned = case_of(root, "environment/torch-version-differs")
    assert warned.find("failure") is None
    assert "2.12.1" in (warned.findtext("system-out") or "")


def test_several_errors_of_a_check_are_one_failure() -> None:
    found = [
        Finding(id="launch/fault", title=t, message=f"{t}!", fix="f", ranks=(0,)) for t in "ab"
    ]
    of = report(run(world_size=1, hosts=()), ranks(1, 1), [check("launch/fault")], found)
    (failure,) = case_of(ET.fromstring(junit.render(of)), "launch/fault").iter("failure")
    assert failure.get("message") == "a (and 1 more error)"
    assert "b!" in (failure.text or "")


def test_a_check_that_failed_itself_is_an_error() -> None:
    root = ET.fromstring(junit.render(sample("check_error")))
    error = case_of(root, "gradients/bucket-views").find("error")
    assert error is not None
    assert "3 buckets, expected 4" in (error.text or "")


def test_an_incomplete_run_is_an_error_though_no_check_failed() -> None:
    root = ET.fromstring(junit.render(sample("incomplete")))
    error = case_of(root, "verdict").find("error")
    assert error is not None
    assert "stalled rank 1 (node0): no answer for 60 s" in (error.text or "")
    assert root.get("errors") == "1"
    assert case_of(ET.fromstring(junit.render(sample("healthy"))), "verdict").find("error") is None


def test_a_finding_of_no_known_check_has_a_case() -> None:
    found = [
        Finding(id=f"new/{s.value}", title="t", message="m", fix="f", ranks=(), severity=s)
        for s in Severity
    ]
    root = ET.fromstring(junit.render(report(run(world_size=1, hosts=()), ranks(1, 1), [], found)))
    assert root.get("failures") == "1"
    assert case_of(root, "new/warning").findtext("system-out") == "the whole run: t\nm\nfix: f"


def test_times_are_numbers_whatever_came() -> None:
    of = [check("launch/a", duration_s=float("nan")), check("launch/b", duration_s=-1.0)]
    text = junit.render(report(run(world_size=1, hosts=()), ranks(1, 1), of))
    SCHEMA.validate(text)
    assert case_of(ET.fromstring(text), "launch/a").get("time") == "0.000"


def test_a_thousand_findings_are_a_file_that_can_be_read() -> None:
    assert len(junit.render(crowd(64, findings=1000))) < 500_000
