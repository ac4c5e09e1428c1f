"""The command line: what it makes of words and variables, before anything runs."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ddpcheck import __version__, commands
from ddpcheck.check import Profile
from ddpcheck.cli import main
from ddpcheck.command_options import EPILOG, build_parser
from ddpcheck.engine.assembly import Ranks, build_report
from ddpcheck.engine.rundir import note_start
from ddpcheck.errors import ExitCode, GateError, LaunchError, TargetError
from ddpcheck.finding import Severity
from ddpcheck.measures.mesh import Axis
from ddpcheck.report import Run, write_report
from ddpcheck.settings import LaunchOptions, RunSettings, TrainSettings

RUN = Run(
    id="ddpcheck-20261128-000000-0000",
    command="ddpcheck run",
    launcher="ddpcheck",
    backend="gloo",
    profile="quick",
    requested_world_size=1,
    world_size=1,
    hosts=["node0"],
    started_at="2026-11-28T00:00:00Z",
    duration_s=0.0,
    versions={},
)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DDPCHECK_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what the commands are asked, in place of carrying them out."""
    calls: list[Any] = []

    def take(*given: Any, **switched: bool) -> ExitCode:
        calls.append((*given, *(name for name, on in switched.items() if on)))
        return ExitCode.OK

    for name in ("run", "train", "report", "diff", "explain", "list_checks"):
        monkeypatch.setattr(commands, name, take)
    return calls


def run_settings(asked: Sequence[Any], *words: str) -> RunSettings:
    assert main(["run", *words]) == 0
    settings: RunSettings = asked[-1][0]
    return settings


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the one line on stderr with which the words are refused with exit code 2."""
    try:
        code: object = main(words)
    except SystemExit as left:
        code = left.code
    assert code == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    return told.err


def test_run_has_the_defaults_of_its_settings(asked: list[Any]) -> None:
    assert main(["run"]) == 0
    assert asked == [(RunSettings(command="ddpcheck run"), LaunchOptions(), ["run"])]


@pytest.mark.parametrize("word", ["--local-rank=1", "--local_rank=0"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_local_rank_that_a_launcher_adds_is_taken_from_its_variable(
    word: str, place: int, asked: list[Any]
) -> None:
    words = ["run", "--profile", "quick"]
    assert main([*words[:place], word, *words[place:]]) == 0
    assert asked[0][0].profile is Profile.QUICK


def test_train_has_the_defaults_of_its_settings(asked: list[Any]) -> None:
    assert main(["train"]) == 0
    settings = TrainSettings(report="reports/latest", command="ddpcheck train")
    assert asked == [(settings, LaunchOptions(), ["train"])]


def test_every_word_of_run_reaches_its_setting(asked: list[Any]) -> None:
    words = shlex.split(
        "run --select launch,gradients/* --skip devices --profile full --backend gloo "
        "--target train.py:make --data text.txt --report-dir out --fail-on warning "
        "--format markdown --deadline 7.5"
    )
    assert main(words) == 0
    assert asked[-1][0] == RunSettings(
        select=("launch", "gradients/*"),
        skip=("devices",),
        profile=Profile.FULL,
        backend="gloo",
        target="train.py:make",
        data="text.txt",
        report_dir="out",
        fail_on=Severity.WARNING,
        format="markdown",
        deadline_s=7.5,
        command=shlex.join(["ddpcheck", *words]),
    )


def test_every_word_of_train_reaches_its_setting(asked: list[Any]) -> None:
    words = shlex.split(
        "train --from out --strategy ddp --precision bf16 --steps 5 --global-batch 64 --data t "
        "--checkpoint-dir c --backend nccl --force --mesh dp=2 --micro-batches 2 --verify "
        "--verify-steps 3 --options static-graph,bf16_compression=false --checkpoint-every 0 --resume"
    )
    assert main(words) == 0
    assert asked[-1][0] == TrainSettings(
        report="out",
        force=True,
        strategy="ddp",
        precision="bf16",
        steps=5,
        global_batch=64,
        data="t",
        checkpoint_dir="c",
        checkpoint_every=0,
        resume=True,
        backend="nccl",
        mesh=(Axis("dp", 2),),
        micro_batches=2,
        verify=True,
        verify_steps=3,
        options=(("static_graph", "true"), ("bf16_compression", "false")),
        command=shlex.join(["ddpcheck", *words]),
    )


@pytest.mark.parametrize("command", ["run", "train"])
def test_launch_options_have_torchruns_names(command: str, asked: list[Any]) -> None:
    words = shlex.split(
        "--nproc-per-node 4 --nnodes 2 --node-rank 1 --master-addr node0 --master-port 29511 "
        "--rdzv-backend c10d --rdzv-endpoint node0:29400 --rdzv-id job"
    )
    assert main([command, *words]) == 0
    assert asked[-1][1] == LaunchOptions(
        nproc_per_node=4,
        nnodes=2,
        node_rank=1,
        master_addr="node0",
        master_port=29511,
        rdzv_backend="c10d",
        rdzv_endpoint="node0:29400",
        rdzv_id="job",
    )


def test_the_other_commands_get_their_words(asked: list[Any]) -> None:
    written = ["report", "out", "--format", "json", "-o", "out.json"]
    for words in (["report"], written, ["explain", "a/b"], ["list"]):
        assert main(words) == 0
    assert asked == [("reports/latest", "text", ""), ("out", "json", "out.json"), ("a/b",), ()]


def test_a_report_may_be_judged_again_and_lose_its_names(asked: list[Any]) -> None:
    assert main(["report", "out", "--rejudge"]) == 0
    assert main(["report", "--anonymize"]) == 0
    assert asked == [("out", "text", "", "rejudge"), ("reports/latest", "text", "", "anonymize")]


def test_durations_are_a_part_of_the_text_and_change_no_other_format(asked: list[Any]) -> None:
    assert main(["report", "out", "--durations"]) == 0
    assert main(["report", "out", "--durations", "--format", "json"]) == 0
    assert asked == [("out", "durations", ""), ("out", "json", "")]
    assert run_settings(asked, "--durations").format == "durations"


def test_a_diff_gets_two_reports_and_a_bound(asked: list[Any]) -> None:
    assert main(["diff", "a", "b"]) == 0
    assert main(["diff", "a", "b", "--bound", "10%", "--format", "markdown"]) == 0
    assert asked == [("a", "b", "text", 0.05), ("a", "b", "markdown", 0.1)]
    assert main(["diff", "a", "b"]) == 0


def test_a_diff_of_one_report_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "NEW" in refusal(capsys, "diff", "a")


def test_secrets_on_the_command_line_go_into_no_report(asked: list[Any]) -> None:
    words = ("--target", "train.py:make", "--data", "https://me:word@host/text")
    assert run_settings(asked, *words).command == shlex.join(
        ["ddpcheck", "run", *words[:3], "https://***@host/text"]
    )
    assert run_settings(asked, *words).data == words[3]


@pytest.mark.parametrize(
    ("text", "ids"),
    [("", ()), (" ", ()), (",", ()), ("launch", ("launch",)), (" a , b,", ("a", "b"))],
)
def test_lists_of_checks_are_cut_at_commas(
    text: str, ids: tuple[str, ...], asked: list[Any]
) -> None:
    assert run_settings(asked, "--select", text, "--skip", text).select == ids
    assert asked[-1][0].skip == ids


def test_the_command_can_be_pasted_into_a_shell(asked: list[Any]) -> None:
    words = ["run", "--target", "my train.py:make", "--data", "it's"]
    assert main(words) == 0
    assert shlex.split(asked[-1][0].command) == ["ddpcheck", *words]


@pytest.mark.parametrize(
    ("variable", "value", "read"),
    [
        ("DDPCHECK_SELECT", "launch,network", {"select": ("launch", "network")}),
        ("DDPCHECK_SKIP", "devices", {"skip": ("devices",)}),
        ("DDPCHECK_PROFILE", "quick", {"profile": Profile.QUICK}),
        ("DDPCHECK_BACKEND", "gloo", {"backend": "gloo"}),
        ("DDPCHECK_TARGET", "convnet", {"target": "convnet"}),
        ("DDPCHECK_DATA", "text", {"data": "text"}),
        ("DDPCHECK_REPORT_DIR", "out", {"report_dir": "out"}),
        ("DDPCHECK_FAIL_ON", "warning", {"fail_on": Severity.WARNING}),
        ("DDPCHECK_FORMAT", "json", {"format": "json"}),
        ("DDPCHECK_DEADLINE", "2.5", {"deadline_s": 2.5}),
    ],
)
def test_a_variable_sets_an_option_and_the_line_outweighs_it(
    variable: str,
    value: str,
    read: dict[str, object],
    asked: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ((setting, wanted),) = read.items()
    default = getattr(run_settings(asked), setting)
    monkeypatch.setenv(variable, value)
    assert getattr(run_settings(asked), setting) == wanted != default
    flag = "--" + variable.removeprefix("DDPCHECK_").lower().replace("_", "-")
    shown = ",".join(default) if isinstance(default, tuple) else str(default)
    assert getattr(run_settings(asked, f"{flag}={shown}"), setting) == default


def test_launch_options_and_train_options_have_variables(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "NPROC_PER_NODE": "3",
        "NNODES": "2",
        "NODE_RANK": "1",
        "MASTER_ADDR": "node0",
        "MASTER_PORT": "1234",
        "FROM": "out",
        "STEPS": "9",
        "GLOBAL_BATCH": "16",
        "PRECISION": "bf16",
    }.items():
        monkeypatch.setenv(f"DDPCHECK_{name}", value)
    assert main(["train"]) == 0
    settings, options, _ = asked[-1]
    assert (options.nproc_per_node, options.nnodes, options.node_rank) == (3, 2, 1)
    assert (options.master_addr, options.master_port) == ("node0", 1234)
    assert (settings.report, settings.steps, settings.global_batch) == ("out", 9, 16)
    assert settings.precision == "bf16"


def test_every_option_has_a_variable(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDPCHECK_FORCE", "1")
    assert main(["train"]) == 0
    assert asked[-1][0].force


@pytest.mark.parametrize("value", ["0", "false", "no"])
def test_a_variable_can_say_no(
    value: str, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDPCHECK_FORCE", value)
    assert main(["train"]) == 0
    assert not asked[-1][0].force


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "--profile", "slow"], "invalid choice: 'slow'"),
        (["run", "--backend", "mpi"], "invalid choice: 'mpi'"),
        (["run", "--fail-on", "info"], "invalid choice: 'info'"),
        (["run", "--format", "xml"], "invalid choice: 'xml'"),
        (["run", "--baseline-bound", "much"], "--baseline-bound: invalid percent value: 'much'"),
        (["run", "--deadline", "soon"], "--deadline: invalid seconds value: 'soon'"),
        (["run", "--nproc-per-node", "0"], "--nproc-per-node: invalid"),
        (["run", "--nnodes", "-1"], "--nnodes: invalid"),
        (["run", "--master-port", "http"], "--master-port: invalid port value: 'http'"),
        (["train", "--steps", "1.5"], "--steps: invalid positive value: '1.5'"),
        (["run", "train.py"], "unrecognized arguments: train.py"),
        (["report", "a", "b"], "unrecognized arguments: b"),
        (["explain"], "required: id"),
        (["launch"], "invalid choice: 'launch'"),
        ([], "required: COMMAND"),
        pytest.param(["run", "--deadline", "nan"], "nan"),
        pytest.param(["run", "--deadline", "-5"], "-5"),
        pytest.param(["run", "--node-rank", "-1"], "-1"),
        pytest.param(
            ["run", "--master-port", "66660"],
            "66660",
        ),
    ],
)
def test_words_that_make_no_sense_are_refused_in_one_line(
    words: list[str], told: str, asked: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(capsys, *words)
    assert line.startswith("ddpcheck: ")
    assert told in line
    assert asked == []


@pytest.mark.parametrize(
    ("variable", "choices"),
    [
        ("DDPCHECK_PROFILE", "quick, standard, full"),
        ("DDPCHECK_BACKEND", "auto, gloo, nccl"),
        ("DDPCHECK_FAIL_ON", "error, warning"),
    ],
)
def test_a_variable_that_makes_no_sense_is_refused_in_one_line(
    variable: str,
    choices: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, "wrong")
    assert refusal(capsys, "run") == f"ddpcheck: {variable} is 'wrong'; choose from {choices}\n"


@pytest.mark.parametrize("variable", ["DDPCHECK_DEADLINE", "DDPCHECK_NPROC_PER_NODE"])
def test_a_variable_that_is_no_number_is_refused(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "wrong")
    assert "'wrong'" in refusal(capsys, "run")


@pytest.mark.parametrize("variable", ["DDPCHECK_PROFILE", "DDPCHECK_NPROC_PER_NODE"])
def test_an_empty_variable_counts_as_unset(
    variable: str, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "")
    try:
        assert main(["run"]) == 0
    except SystemExit as left:
        raise AssertionError(variable) from left
    assert asked[-1][0] == RunSettings()


def test_a_wrong_variable_of_another_command_does_not_matter(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDPCHECK_PRECISION", "wrong")
    try:
        assert main(["list"]) == 0
    except SystemExit as left:
        raise AssertionError("refused") from left
    assert asked == [()]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TargetError("--target x: no"), 2),
        (GateError("the verdict is FAIL"), 1),
        (LaunchError("no store"), 4),
    ],
)
def test_what_goes_wrong_is_one_line_and_its_exit_code(
    error: Exception,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> ExitCode:
        raise error

    monkeypatch.setattr(commands, "list_checks", fail)
    assert main(["list"]) == code
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"ddpcheck: {error}\n")


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop() -> ExitCode:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "list_checks", stop)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == "ddpcheck: interrupted\n"


def test_a_bug_is_an_internal_error_and_not_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> ExitCode:
        raise ZeroDivisionError

    monkeypatch.setattr(commands, "list_checks", fail)
    assert main(["list"]) == ExitCode.INTERNAL


def test_exit_codes_and_version_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert (left.value.code, capsys.readouterr().out) == (0, f"ddpcheck {__version__}\n")
    for code in ExitCode:
        assert f"\n  {code.value} " in EPILOG


@pytest.mark.parametrize("command", ["run", "train", "report", "list", "explain"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        build_parser().parse_args([command, "--help"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: ddpcheck {command}")


WITHOUT_TORCH = """
import atexit, os, sys
atexit.register(lambda: os._exit(77) if 'torch' in sys.modules else None)
from ddpcheck.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["run", "--help"], 0),
        (["list"], 0),
        (["explain", "gradients/replicas-differ"], 0),
        (["explain", "gradients/replicas-difer"], 2),
        (["report", "no such report"], 2),
        (["report", "whole"], 0),
        (["report", "whole", "--format", "json"], 0),
        (["report", "crashed"], 0),
        (["run", "--select", "no-such-check"], 2),
    ],
    ids=str,
)
def test_what_starts_no_ranks_needs_no_torch(words: list[str], code: int, tmp_path: Path) -> None:
    for name in ("whole", "crashed"):
        (tmp_path / name / "ranks").mkdir(parents=True)
        note_start(RUN, tmp_path / name)
    write_report(build_report(RUN, [], Ranks({}, {}, absent=[0])), tmp_path / "whole")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == code, done.stderr
    assert bool(done.stdout) is (code == 0)
    assert done.stderr.count("\n") == (code != 0)
