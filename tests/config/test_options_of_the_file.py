"""Options in a settings file: what outweighs them, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from ddpcheck import cli, commands
from ddpcheck.check import Profile
from ddpcheck.errors import ExitCode
from ddpcheck.finding import Severity
from ddpcheck.measures.mesh import Axis
from ddpcheck.settings import LaunchOptions, RunSettings, TrainSettings, WatchSettings


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what the commands are asked, in a folder of their own, in place of doing it."""
    calls: list[Any] = []

    def take(*given: Any, **_switches: bool) -> ExitCode:
        calls.append(given)
        return ExitCode.OK

    for name in ("run", "watch", "train", "report"):
        monkeypatch.setattr(commands, name, take)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return calls


def settings(asked: list[Any], text: str, *words: str) -> Any:
    """Return the settings of the command with this ddpcheck.toml."""
    Path("ddpcheck.toml").write_text(text)
    assert cli.main(words) == 0
    return asked[-1][0]


def refusal(text: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    Path("ddpcheck.toml").write_text(text)
    assert cli.main(words or ["run"]) == ExitCode.USAGE
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    return told.err


def test_every_option_of_run_can_stand_in_the_file(asked: list[Any]) -> None:
    text = """
        select = ["launch", "gradients/*"]
        skip = "devices"
        profile = "full"
        backend = "gloo"
        target = "train.py:make"
        data = "text.txt"
        mesh = { dp = 2, tp = 4 }
        baseline = "old"
        baseline-bound = 7
        report-dir = "out"
        fail-on = "warning"
        format = "markdown"
        deadline = 7.5
        nproc-per-node = 4
    """
    got: RunSettings = settings(asked, text, "run")
    assert (got.select, got.skip) == (("launch", "gradients/*"), ("devices",))
    assert (got.profile, got.backend) == (Profile.FULL, "gloo")
    assert (got.target, got.data) == ("train.py:make", "text.txt")
    assert got.mesh == (Axis("dp", 2), Axis("tp", 4))
    assert (got.baseline, got.baseline_bound_ratio) == ("old", 0.07)
    assert (got.report_dir, got.fail_on, got.format) == ("out", Severity.WARNING, "markdown")
    assert got.deadline_s == 7.5
    assert asked[-1][1] == LaunchOptions(nproc_per_node=4)
    options = got.configuration.options
    assert (options["select"], options["mesh"]) == ("launch,gradients/*", "dp=2,tp=4")
    assert got.configuration.file == "ddpcheck.toml"


def test_pyproject_does_the_same(asked: list[Any]) -> None:
    Path("pyproject.toml").write_text('[tool.ddpcheck]\nprofile = "quick"\n')
    assert cli.main(["run"]) == 0
    assert asked[-1][0].profile is Profile.QUICK
    assert asked[-1][0].configuration.file == "pyproject.toml"


def test_line_outweighs_variable_outweighs_file_outweighs_default(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'report-dir = "of-the-file"'
    assert settings(asked, "", "run").report_dir == "reports"
    assert settings(asked, text, "run").report_dir == "of-the-file"
    monkeypatch.setenv("DDPCHECK_REPORT_DIR", "of-the-variable")
    got = settings(asked, text, "run")
    assert (got.report_dir, got.configuration.options) == ("of-the-variable", {})
    assert settings(asked, text, "run", "--report-dir", "typed").report_dir == "typed"


def test_a_table_of_a_command_outweighs_the_top_and_is_its_alone(asked: list[Any]) -> None:
    text = """
        fail-on = "warning"
        steps = 7
        [watch]
        steps = 99
        fail-on = "error"
        [train]
        force = true
    """
    watch: WatchSettings = settings(asked, text, "watch", "train.py", "--steps", "5")
    assert (watch.steps, watch.script) == (99, ("train.py", "--steps", "5"))
    assert watch.fail_on is Severity.ERROR
    assert watch.configuration.file == "ddpcheck.toml"
    train: TrainSettings = settings(asked, text, "train")
    assert (train.steps, train.force) == (7, True)
    assert settings(asked, text, "run").fail_on is Severity.WARNING


def test_the_format_of_a_report_comes_from_the_file_too(asked: list[Any]) -> None:
    Path("ddpcheck.toml").write_text('[report]\nformat = "json"\n')
    assert cli.main(["report", "out"]) == 0
    assert asked == [("out", "json", "")]


def test_the_file_is_named_by_an_option_or_a_variable(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("nightly.toml").write_text('profile = "full"')
    text = 'profile = "quick"'
    assert settings(asked, text, "run", "--config", "nightly.toml").profile is Profile.FULL
    monkeypatch.setenv("DDPCHECK_CONFIG", "nightly.toml")
    assert settings(asked, text, "run").profile is Profile.FULL
    assert settings(asked, text, "run", "--config=/dev/null").profile is Profile.STANDARD


def test_a_scripts_own_config_is_its_own(asked: list[Any]) -> None:
    watch = settings(asked, 'fail-on = "warning"', "watch", "train.py", "--config", "model.yaml")
    assert watch.script == ("train.py", "--config", "model.yaml")
    assert watch.fail_on is Severity.WARNING


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("profle = 'quick'", "profle: there is no such setting: did you mean profile?"),
        ("report_dir = 'out'", "report_dir: there is no such setting: did you mean report-dir?"),
        ("xyzzy = 1", "xyzzy: there is no such setting: 'ddpcheck run --help' shows"),
        ("config = 'other.toml'", "config: there is no such setting"),
        ("profile = 'slow'", "profile: is 'slow'; choose from quick, standard, full"),
        ("profile = ['quick']", "profile: must be a text or a number"),
        ("deadline = 'soon'", "deadline: is 'soon': no seconds value"),
        ("deadline = true", "deadline: must be a text or a number"),
        ("deadline = 2026-11-29", "deadline: must be a text or a number"),
        ("nnodes = 0", "nnodes: is '0': no positive value"),
        ("skip = [['a']]", "skip: must be a text or a number"),
        ("skip = true", "skip: must be a text, a number, or a list or table of them"),
        ("mesh = {dp = 0}", "mesh: is 'dp=0': "),
        ("force = 'yes'", "force: must be true or false"),
        ("run = 7", "run: must be a table of options of that command"),
        ("[run]\nsteps = 7", "run.steps: there is no such setting"),
        ("[train]\nsteps = -1", "train.steps: is '-1': no positive value"),
        ("'a\\nb' = 1".replace("'", '"'), '"a\\nb": there is no such setting'),
        ("[severity]\na = 'info'", "severity.a: no check is called 'a'"),
    ],
)
def test_what_makes_no_sense_is_refused_with_file_and_key(
    text: str, told: str, asked: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(text, capsys)
    assert line.startswith("ddpcheck: ddpcheck.toml: ")
    assert told in line
    assert asked == []


@pytest.mark.usefixtures("asked")
def test_the_other_commands_read_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ddpcheck.toml").write_text("nonsense")
    assert cli.main(["explain", "ranks/lost"]) == 0
    assert "ranks/lost" in capsys.readouterr().out
