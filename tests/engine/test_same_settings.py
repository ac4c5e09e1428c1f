"""Ranks that were asked different things are told of before anything is measured."""

from typing import Any

import pytest

from ddpcheck.catalogue import catalogue
from ddpcheck.check import Profile
from ddpcheck.configuration import Configuration, Suppression, Threshold
from ddpcheck.engine.entries import Present, pack, unpack
from ddpcheck.engine.same_settings import difference_of, settings_told
from ddpcheck.finding import Severity
from ddpcheck.measures.mesh import Axis
from ddpcheck.settings import RunSettings

CHECKS = catalogue()


def member(rank: int, settings: RunSettings | None, checks: int = 9) -> Present:
    told = settings_told(settings, CHECKS[:checks]) if settings else {}
    return Present(
        rank=rank,
        local_rank=rank,
        world_size=2,
        host=f"node{rank}",
        pid=rank,
        gpus=0,
        backend="auto",
        launcher="torchrun",
        versions={},
        settings=told,
    )


def configured(**changes: Any) -> RunSettings:
    settings: dict[str, Any] = {"file": "ddpcheck.toml", **changes}
    return RunSettings(configuration=Configuration(**settings))


@pytest.mark.parametrize(
    "other",
    [
        RunSettings(),
        RunSettings(report_dir="elsewhere", format="json", fail_on=Severity.WARNING),
        configured(),
        configured(file="/elsewhere/pyproject.toml", options={"report-dir": "out"}),
    ],
)
def test_what_need_not_be_the_same_may_differ(other: RunSettings) -> None:
    assert difference_of([member(1, other), member(0, RunSettings())]) == ""


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (RunSettings(profile=Profile.QUICK), "--profile"),
        (RunSettings(mesh=(Axis("dp", 2),)), "--mesh"),
        (configured(severity={"network": Severity.INFO}), "severity"),
        (configured(thresholds=(Threshold("a/b", "LIMIT_S", 1.0, 2.0),)), "thresholds"),
        (configured(suppress=(Suppression(check="a/b", reason="c"),)), "suppress"),
    ],
)
def test_what_must_be_the_same_is_named_with_both_ranks(other: RunSettings, named: str) -> None:
    told = difference_of([member(1, other), member(0, RunSettings())])
    file = other.configuration.file or "no settings file"
    assert told.startswith(
        "rank 1 on node1 was started with other settings than rank 0 on node0: "
        f"{named} ({file} and no settings file); "
    )
    assert "--config" in told


def test_a_path_of_another_machine_stays_in_its_line() -> None:
    evil = configured(file="a\n\x1b[2Jb.toml", severity={"network": Severity.INFO})
    assert "severity (a??[2Jb.toml and no" in difference_of(
        [member(0, RunSettings()), member(1, evil)]
    )


def test_checks_that_one_host_lacks_are_told_of() -> None:
    told = difference_of([member(0, RunSettings()), member(1, RunSettings(), checks=8)])
    assert "--select, --skip or installed checks" in told


def test_only_ranks_that_make_up_one_job_are_compared() -> None:
    quick = RunSettings(profile=Profile.QUICK)
    assert difference_of([member(0, RunSettings()), member(0, quick)]) == ""
    assert difference_of([member(0, RunSettings()), member(2, quick)]) == ""
    assert difference_of([]) == ""


def test_a_rank_that_does_not_tell_its_settings_is_not_accused() -> None:
    assert difference_of([member(0, RunSettings()), member(1, None)]) == ""


def test_settings_travel_as_they_were_told() -> None:
    sent = member(0, configured())
    assert list(unpack(pack([sent]))) == [sent]
