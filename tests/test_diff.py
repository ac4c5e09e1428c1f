"""``ddpcheck diff``: what it exits with, and what it reads."""

from pathlib import Path

import pytest
from two_reports import found, told

from ddpcheck.cli import main
from ddpcheck.engine.against import against_baseline
from ddpcheck.engine.rundir import note_start
from ddpcheck.errors import ExitCode
from ddpcheck.finding import Severity
from ddpcheck.report import (
    FORMAT_VERSION,
    REPORT_NAME,
    CheckOutcome,
    Report,
    exit_code_of,
    write_report,
)
from ddpcheck.settings import RunSettings


def written(place: Path, report: Report) -> str:
    place.mkdir()
    write_report(report, place)
    return str(place)


@pytest.mark.parametrize(("turned", "code"), [(False, 1), (True, 0)])
def test_exits_with_1_where_the_newer_one_is_worse_and_not_where_it_is_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, turned: bool, code: int
) -> None:
    well = told(checks={"network/slow-link": CheckOutcome.PASS})
    ill = told(checks={"network/slow-link": CheckOutcome.FAIL}, findings=[found()])
    reports = [written(tmp_path / "a", well), written(tmp_path / "b", ill)]
    assert main(["diff", *(reports[::-1] if turned else reports)]) == code
    assert (
        capsys.readouterr()
        .out.splitlines()[-1]
        .startswith(
            "diff: NOT WORSE, 0 worse, 0 changed, 2 better" if turned else "diff: WORSE, 2 worse"
        )
    )


def test_a_file_is_as_good_as_its_directory(tmp_path: Path) -> None:
    place = written(tmp_path / "a", told())
    assert main(["diff", place, f"{place}/{REPORT_NAME}"]) == 0


def test_a_run_that_left_no_report_is_assembled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "b"
    (broken / "ranks").mkdir(parents=True)
    note_start(told().run, broken)
    assert main(["diff", written(tmp_path / "a", told()), str(broken)]) == 1
    assert "ranks: ranks 0-1: ok -> lost; never came" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format_version": %d}' % (FORMAT_VERSION + 1)])
def test_what_cannot_be_read_is_a_usage_error_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    file = tmp_path / "new.json"
    file.write_bytes(content)
    assert main(["diff", written(tmp_path / "a", told()), str(file)]) == ExitCode.USAGE
    told_of = capsys.readouterr()
    assert told_of.out == ""
    assert told_of.err.startswith(f"ddpcheck: {file} ")
    assert len(told_of.err.splitlines()) == 1


def test_a_run_with_a_baseline_does_it_in_one_go(tmp_path: Path) -> None:
    before = written(tmp_path / "a", told())
    worse = told(findings=[found(Severity.WARNING)])
    settings = RunSettings(baseline=before)
    compared = against_baseline(worse, settings)
    assert compared.changes
    assert compared.changes.is_worse
    assert exit_code_of(worse, Severity.ERROR) == 0
    assert exit_code_of(compared, Severity.ERROR) == 1
    assert exit_code_of(against_baseline(told(), settings), Severity.ERROR) == 0
    assert against_baseline(worse, RunSettings()) is worse


def test_a_baseline_that_is_gone_is_told_and_stops_nothing(tmp_path: Path) -> None:
    compared = against_baseline(told(), RunSettings(baseline=str(tmp_path / "gone.json")))
    assert compared.changes
    assert not compared.changes.is_worse
    assert "gone.json" in compared.changes.left_out[0]
