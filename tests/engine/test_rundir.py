import re
import tempfile
from pathlib import Path

import pytest

from ddpcheck import jsontext
from ddpcheck.engine.assembly import RUN_NAME
from ddpcheck.engine.rundir import (
    discard,
    keep_report,
    make_run_dir,
    new_run_id,
    note_start,
    point_latest_to,
    spare_dir,
)
from ddpcheck.errors import ExitCode, ReportError
from ddpcheck.report import REPORT_NAME, Report, Run, Verdict, read_report

RUN_ID = "ddpcheck-20261128-000000-0000"
RUN = Run(
    id=RUN_ID,
    command="ddpcheck run --target caf\udce9.py:make",
    launcher="ddpcheck",
    backend="gloo",
    profile="quick",
    requested_world_size=2,
    world_size=2,
    hosts=["node0"],
    started_at="2026-11-28T00:00:00Z",
    duration_s=0.0,
    versions={"torch": "2.13.0"},
)

REPORT = Report(
    verdict=Verdict.PASS,
    run=RUN,
    ranks=(),
    checks=(),
    findings=(),
    recommendation={},
    facts={},
)


def made(parent: Path, run_id: str = RUN_ID) -> Path:
    return make_run_dir(str(parent), run_id)


def test_run_ids_have_their_form_and_are_not_the_same() -> None:
    ids = {new_run_id() for _ in range(20)}
    assert len(ids) > 15
    assert all(re.fullmatch(r"ddpcheck-\d{8}-\d{6}-[0-9a-f]{4}", each) for each in ids)


def test_a_run_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    run_dir = made(tmp_path / "a" / "b")
    assert run_dir == tmp_path / "a" / "b" / RUN_ID
    assert (run_dir / "ranks").is_dir()
    assert made(tmp_path / "a" / "b") == run_dir


def test_a_run_directory_does_not_depend_on_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert made(Path("reports")) == tmp_path / "reports" / RUN_ID


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(
        ReportError, match=f"cannot write reports to {file}: .*--report-dir"
    ) as told:
        made(file)
    assert told.value.exit_code is ExitCode.USAGE
    assert "\n" not in str(told.value)


def test_the_start_is_noted(tmp_path: Path) -> None:
    note_start(RUN, tmp_path)
    noted = jsontext.decode((tmp_path / RUN_NAME).read_bytes(), Run)
    assert noted.command == r"ddpcheck run --target caf\udce9.py:make"
    assert (noted.id, noted.requested_world_size, noted.versions) == (RUN_ID, 2, RUN.versions)


def test_a_start_that_cannot_be_noted_ends_nothing(tmp_path: Path) -> None:
    note_start(RUN, tmp_path / "no such folder")
    assert list(tmp_path.iterdir()) == []


def test_latest_points_to_the_newest_run(tmp_path: Path) -> None:
    for run_id in (RUN_ID, "ddpcheck-later"):
        run_dir = made(tmp_path, run_id)
        point_latest_to(run_dir)
        assert (tmp_path / "latest").resolve() == run_dir
        assert (tmp_path / "latest").readlink() == Path(run_id)
    names = {each.name for each in tmp_path.iterdir()}
    assert names == {RUN_ID, "ddpcheck-later", "latest"}


def test_latest_replaces_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to("gone")
    run_dir = made(tmp_path)
    point_latest_to(run_dir)
    assert (tmp_path / "latest").resolve() == run_dir


def test_the_folder_can_be_moved_with_its_link(tmp_path: Path) -> None:
    point_latest_to(made(tmp_path / "before"))
    (tmp_path / "before").rename(tmp_path / "after")
    assert (tmp_path / "after" / "latest" / "ranks").is_dir()


def test_where_no_link_can_be_made_nothing_ends(tmp_path: Path) -> None:
    (tmp_path / "latest" / "of the user").mkdir(parents=True)
    point_latest_to(made(tmp_path))
    assert (tmp_path / "latest" / "of the user").is_dir()


def test_where_no_link_can_be_made_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    point_latest_to(made(tmp_path))
    assert {each.name for each in tmp_path.iterdir()} == {RUN_ID, "latest"}


def test_a_run_that_is_discarded_leaves_no_trace(tmp_path: Path) -> None:
    run_dir = made(tmp_path / "reports")
    note_start(RUN, run_dir)
    (run_dir / "ranks" / "0.jsonl").write_text("{}")
    discard(run_dir)
    assert list(tmp_path.iterdir()) == []
    discard(run_dir)


def test_discarding_leaves_other_reports_alone(tmp_path: Path) -> None:
    other, run_dir = made(tmp_path, "ddpcheck-other"), made(tmp_path)
    discard(run_dir)
    assert [each.name for each in tmp_path.iterdir()] == [other.name]
    assert (other / "ranks").is_dir()


def test_discarding_leaves_a_folder_that_was_there_before(tmp_path: Path) -> None:
    users = tmp_path / "mounted"
    users.mkdir()
    discard(made(users))
    assert users.is_dir()


@pytest.fixture
def spare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the temporary directory that the tests have for themselves."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_a_report_is_kept_in_its_run_directory(
    tmp_path: Path, spare: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = made(tmp_path / "reports")
    assert keep_report(REPORT, run_dir) == run_dir / REPORT_NAME
    assert read_report(tmp_path / "reports" / "latest").run.id == RUN_ID
    assert list(spare.iterdir()) == []
    assert capsys.readouterr().err == ""


def test_a_run_directory_that_was_lost_comes_back_for_the_report(
    tmp_path: Path, spare: Path
) -> None:
    run_dir = made(tmp_path / "reports")
    discard(run_dir)
    assert keep_report(REPORT, run_dir) == run_dir / REPORT_NAME
    assert list(spare.iterdir()) == []


def blocked(run_dir: Path) -> Path:
    """Put a file where the directory should be: nobody can write there, not even root."""
    run_dir.write_text("")
    return run_dir


def test_a_report_that_its_run_directory_does_not_take_goes_to_the_temporary_directory(
    tmp_path: Path, spare: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = blocked(tmp_path / RUN_ID)
    assert spare_dir(run_dir) == spare / RUN_ID
    assert keep_report(REPORT, run_dir) == spare / RUN_ID / REPORT_NAME
    assert read_report(spare / RUN_ID).run.id == RUN_ID
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ddpcheck: ")
    assert str(run_dir) in line


def test_latest_does_not_point_to_a_run_without_a_report(tmp_path: Path, spare: Path) -> None:
    keep_report(REPORT, blocked(tmp_path / RUN_ID))
    assert (spare / RUN_ID / REPORT_NAME).is_file()
    assert not (tmp_path / "latest").is_symlink()


def test_a_report_that_nowhere_takes_ends_nothing(
    tmp_path: Path, spare: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked(spare / RUN_ID)
    run_dir = blocked(tmp_path / RUN_ID)
    assert keep_report(REPORT, run_dir) == run_dir
    told = capsys.readouterr().err.splitlines()
    assert [line.startswith("ddpcheck: ") for line in told] == [True, True]
