"""The trace: what is shown of a report alone, and of the files that ranks wrote beside it."""

import json
from pathlib import Path
from typing import Any

import pytest
from render_samples import SAMPLES, sample
from sample_parts import check, ranks, report, run

from ddpcheck.engine.entries import Began, Crashed, Ended, Entry, Journal, Measured, Skipped
from ddpcheck.render.formats import trace
from ddpcheck.report import Report

ENTRIES: list[Entry] = [
    Began("launch/fault", 100.0),
    Measured("launch/fault", {"x": 1}, 0.5),
    Ended("launch"),
    Began("network/fault", 101.0),
    Skipped("network/fault", "one host"),
    Began("network/other", 101.5),
    Crashed("network/other", "ValueError: 7", "line 3"),
    Began("rehearsal/fault", 102.0),
]


def events_of(shown: Report, path: str = "") -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads(trace.render(shown, path))["traceEvents"]
    return told


def bars(events: list[dict[str, Any]], row: int) -> list[tuple[int, str, float, float]]:
    return [
        (each["pid"], each["name"], each["ts"], each["dur"])
        for each in events
        if each["ph"] == "X" and each["tid"] == row
    ]


def names(events: list[dict[str, Any]]) -> dict[int, str]:
    return {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    journal = Journal(tmp_path, 1)
    journal.write(ENTRIES)
    with journal.path.open("ab") as file:
        file.write(b'{"type":"began","check":"half')
    return tmp_path


def two_ranks() -> Report:
    checks = [check("launch/fault"), check("network/fault", outcome="skip")]
    checks += [check("network/other", outcome="error"), check("rehearsal/fault")]
    return report(run(world_size=2, hosts=("node0",)), ranks(2, 2), checks)


@pytest.mark.parametrize("name", [*SAMPLES, "many_ranks"])
def test_every_event_has_what_viewers_need(name: str) -> None:
    events = events_of(sample(name))
    assert any(each["ph"] == "X" for each in events)
    for each in events:
        assert {"ph", "pid", "tid", "name"} <= set(each)
        assert each["ph"] == "M" or (each["ts"] >= 0 and each["dur"] >= 0)


def test_a_report_alone_has_its_checks_one_after_the_other() -> None:
    events = events_of(sample("healthy"))
    shown = bars(events, trace.CHECKS)
    assert [name for _, name, _, _ in shown][-1] == "performance/straggler"
    assert "devices/gpu-shared" not in {name for _, name, _, _ in shown}
    assert shown[1][2] == shown[0][2] + shown[0][3] == 120_000
    assert bars(events, trace.STAGES)[-1][1:] == ("rehearsal", 480_000, 12_300_000)
    assert list(names(events).values()) == [trace.ALL_RANKS]


def test_ranks_have_the_parts_of_a_step_in_a_row() -> None:
    events = events_of(sample("slow_link"))
    shown = [bar for bar in bars(events, trace.STEP) if bar[0] == 5]
    assert [name for _, name, _, _ in shown] == [
        *("data", "forward", "backward", "exposed comm", "optimizer")
    ]
    assert shown[1][2] == pytest.approx(400)
    assert shown[-1][2] + shown[-1][3] == pytest.approx(38_600)
    assert names(events)[5] == "rank 5, node0, cuda:5"


@pytest.mark.parametrize("as_file", [True, False])
def test_the_files_of_ranks_have_the_times(run_dir: Path, as_file: bool) -> None:
    place = str(run_dir / "report.json") if as_file else str(run_dir)
    events = events_of(two_ranks(), place)
    assert bars(events, trace.CHECKS) == [
        (1, "launch/fault", 0, 500_000),
        (1, "network/fault", 1_000_000, 0),
        (1, "network/other", 1_500_000, 0),
        (1, "rehearsal/fault", 2_000_000, 0),
    ]
    assert bars(events, trace.STAGES) == [
        (1, "launch", 0, 500_000),
        (1, "network", 1_000_000, 500_000),
        (1, "rehearsal", 2_000_000, 0),
    ]


def test_a_check_without_an_end_lasts_to_the_last_time_known(run_dir: Path) -> None:
    Journal(run_dir, 0).write([Began("launch/fault", 99.0)])
    events = events_of(two_ranks(), str(run_dir))
    assert bars(events, trace.CHECKS)[0] == (0, "launch/fault", 0, 3_000_000)
    (outcome,) = [
        e["args"]["outcome"] for e in events if e["pid"] == 0 and "dur" in e and "args" in e
    ]
    assert outcome == "no end"


def test_work_between_checks_ends_where_the_next_thing_begins(tmp_path: Path) -> None:
    told: list[Entry] = [
        Began("rehearsal/training", 99.0),
        Began("rehearsal/fault", 101.0),
        Measured("rehearsal/fault", {}, 0.25),
        Began("rehearsal/meeting", 102.0),
        Ended("rehearsal"),
    ]
    Journal(tmp_path, 0).write(told)
    events = events_of(two_ranks(), str(tmp_path))
    assert bars(events, trace.CHECKS) == [
        (0, "rehearsal/training", 0, 2_000_000),
        (0, "rehearsal/fault", 2_000_000, 250_000),
        (0, "rehearsal/meeting", 3_000_000, 0),
    ]
    assert bars(events, trace.STAGES) == [(0, "rehearsal", 0, 3_000_000)]


def test_of_many_ranks_those_to_blame_are_shown(tmp_path: Path) -> None:
    shown = sample("many_ranks")
    for rank in (0, 136, 1234, 3210, 4000):
        Journal(tmp_path, rank).write([Began("launch/fault", 99.0)])
    told = names(events_of(shown, str(tmp_path)))
    assert list(told) == [0, 136, 1234, 3210]
    assert told[3210].endswith("lost")
