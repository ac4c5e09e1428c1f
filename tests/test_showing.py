"""Where a report goes: terminals of all kinds, pipes, files."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddpcheck.cli import main
from ddpcheck.errors import ReportError
from ddpcheck.finding import Finding
from ddpcheck.report import Report, Run, Verdict, from_json, to_json, write_in_one_piece
from ddpcheck.showing import print_text

SAMPLE = Path(__file__).parent.parent / "reports" / "samples" / "gloo-2-ranks"


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def foreign_report(folder: Path) -> Path:
    run = Run(
        id="ddpcheck-x",
        command="ddpcheck run --data größe",
        launcher="ddpcheck",
        backend="gloo",
        profile="quick",
        requested_world_size=1,
        world_size=1,
        hosts=("knödel",),
        started_at="2026-11-27T22:10:03Z",
        duration_s=1.0,
        versions={},
    )
    found = Finding(title="ü", message="größer", fix="ß", ranks=(0,), id="launch/fault")
    report = Report(
        verdict=Verdict.FAIL,
        run=run,
        ranks=(),
        checks=(),
        findings=(found,),
        recommendation={},
        facts={},
    )
    path = folder / "report.json"
    path.write_bytes(to_json(report))
    return path


@pytest.mark.parametrize("flag", ["--output", "-o"])
def test_a_file_gets_the_whole_report(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "found.json"
    file.write_text("old")
    assert main(["report", str(SAMPLE), "--format", "json", flag, str(file)]) == 0
    assert from_json(file.read_bytes()).run.backend == "gloo"
    assert capsys.readouterr().out == ""
    assert [each.name for each in tmp_path.iterdir()] == ["found.json"]


def test_a_file_is_utf_8_whatever_the_terminal_takes(tmp_path: Path) -> None:
    report, file = foreign_report(tmp_path), tmp_path / "found.sarif"
    command = [sys.executable, "-m", "ddpcheck", "report", str(report), "--format", "sarif"]
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    subprocess.run([*command, "-o", str(file)], env=environ, check=True)
    assert "größer" in file.read_text(encoding="utf-8")
    piped = subprocess.run(command, env=environ, check=True, capture_output=True).stdout
    assert json.loads(piped) == json.loads(file.read_bytes())


def test_what_cannot_be_written_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "missing" / "x.txt"
    assert main(["report", str(SAMPLE), "-o", str(file)]) != 0
    assert capsys.readouterr().err.endswith(
        f"{file}: No such file or directory; choose another --output\n"
    )


def test_a_link_is_followed_and_a_pipe_is_written_into(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(target)
    write_in_one_piece(link, b"1", "")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"1")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_in_one_piece(pipe, b"2", "")
    assert os.read(reader, 9) == b"2"
    os.close(reader)
    with pytest.raises(ReportError, match="choose another"):
        write_in_one_piece(tmp_path, b"3", "choose another")


def test_dash_is_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(SAMPLE), "-o", "-"]) == 0
    assert "verdict: PASS" in capsys.readouterr().out


def test_a_terminal_shows_what_it_has_no_characters_for_as_escapes() -> None:
    buffer = io.BytesIO()
    stream = Terminal(buffer, encoding="ascii")
    print_text("größe\ud800", stream)
    assert buffer.getvalue() == b"gr\\xf6\\xdfe\\ud800\n"


def test_a_pipe_gets_utf_8() -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii")
    print_text("first\n", stream)
    print_text("größe\n", stream)
    assert buffer.getvalue().decode() == "first\ngröße\n"


def test_colour_is_for_terminals_and_for_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    main(["report", str(SAMPLE)])
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(["report", str(SAMPLE)])
    assert "\x1b[1;32mverdict: PASS\x1b[0m" in capsys.readouterr().out
    main(["report", str(SAMPLE), "--format", "markdown"])
    assert "\x1b" not in capsys.readouterr().out
