"""Bad input ends with exit code 2, one line that says what to do, and nothing left behind."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from real_ranks import Ended, by_hand, command, free_port, run, run_by_hand, run_under_torchrun

ONE = "gradients/step-raised"
# These commands end before they would use it.
PORT = 29500

IMPORTS = "from torch import nn, optim, zeros\n"
MEAN = "lambda m, b: m(b).mean()"
# Source of given.py, the factory that is asked for, and what the line must say.
TARGETS = {
    "syntax error": ("def main(:\n    pass\n", "main", ["SyntaxError", "given.py:1"]),
    "missing module": ("import no_such_module\n", "main", ["no_such_module", "given.py:1"]),
    "missing factory": ("def main(): ...\n", "mian", ["given.py", "mian"]),
    "factory that raises": (
        "def main():\n    raise KeyError('lr')\n",
        "main",
        ["--target", "KeyError", "lr", "given.py:2"],
    ),
    "factory that returns None": ("def main():\n    model = 1\n", "main", ["NoneType", "loader"]),
    "factory that exits": ("def main():\n    raise SystemExit('no GPU')\n", "main", ["no GPU"]),
    "model that is none": (
        "def main():\n    return 'resnet50', [], print\n",
        "main",
        ["--target", "the model is str", "torch.nn.Module"],
    ),
    "empty loader": (
        f"{IMPORTS}def main():\n    return nn.Linear(1, 1), [], {MEAN}\n",
        "main",
        ["loader gives no batch"],
    ),
    "optimizer that is a class": (
        f"{IMPORTS}def main():\n    return nn.Linear(1, 1), [zeros(2, 1)], {MEAN}, optim.SGD\n",
        "main",
        ["--target", "optimizer"],
    ),
    "model without parameters": (
        f"{IMPORTS}def main():\n    return nn.ReLU(), [zeros(2, 1)], {MEAN}\n",
        "main",
        ["no parameter that requires a gradient"],
    ),
}


def assert_refused(ended: Ended, words: Sequence[str]) -> None:
    """Exit code 2, one line in ddpcheck's name, no stack, no run directory."""
    assert set(ended.exit_codes) == {2}
    (line,) = ended.own_lines
    assert [word for word in words if word not in line] == []
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    assert list(ended.report_dir.glob("*")) == []


def alone(tmp_path: Path, *options: str, **environment: str) -> Ended:
    """Run the command in a process of its own."""
    reports = tmp_path / "reports"
    return command(reports, "ddpcheck", *options, "--report-dir", str(reports), **environment)


@pytest.mark.parametrize("name", TARGETS)
def test_target_that_cannot_be_used(name: str, tmp_path: Path) -> None:
    source, factory, words = TARGETS[name]
    file = tmp_path / "given.py"
    file.write_text(source)
    ended = run(tmp_path / "reports", "--target", f"{file}:{factory}", "--select", ONE)
    assert_refused(ended, words)
    assert ended.stderr.splitlines() == ended.own_lines


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("absent.py:main", ["there is no file absent.py"]),
        ("no_such_package.targets:main", ["No module named 'no_such_package'"]),
        ("resnet50", ["minigpt", "convnet", "MODULE:FACTORY"]),
    ],
)
def test_target_that_is_not_there(spec: str, words: Sequence[str], tmp_path: Path) -> None:
    ended = run(tmp_path / "reports", "--target", spec, "--select", ONE)
    assert_refused(ended, ["--target", *words])


ON_RANK_ONE = "import os\n\ndef main():\n    if os.environ['RANK'] == '1':\n        {}\n"
SOUND = f"{IMPORTS}{ON_RANK_ONE}    return nn.Linear(1, 1), [zeros(2, 1)], {MEAN}\n"


def test_target_that_one_rank_cannot_use_is_told_with_that_rank(tmp_path: Path) -> None:
    file = tmp_path / "given.py"
    file.write_text(SOUND.format("raise FileNotFoundError('/data/shard-1.bin')"))
    options = ("--target", f"{file}:main", "--select", ONE, "--deadline", "10")
    ended = run(tmp_path / "reports", *options)
    assert_refused(ended, ["rank 1", "--target", "FileNotFoundError", "/data/shard-1.bin"])


def test_bad_target_under_a_launcher_is_told_once(tmp_path: Path) -> None:
    port = free_port()
    ranks = [by_hand(rank, 2, port) for rank in range(2)]
    ended = run_by_hand(tmp_path / "reports", ranks, "--target", "absent.py:main")
    assert_refused(ended, ["there is no file absent.py"])
    assert ended.stderr.splitlines() == ended.own_lines


def test_bad_target_under_torchrun_is_told_once(tmp_path: Path) -> None:
    ended = run_under_torchrun(tmp_path / "reports", "--target", "absent.py:main")
    assert ended.exit_code != 0
    (line,) = ended.own_lines
    assert "there is no file absent.py" in line
    assert list(ended.report_dir.glob("*")) == []


def test_report_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = run(tmp_path / "file" / "reports", "--select", ONE)
    assert_refused(ended, ["--report-dir", "Not a directory"])


# Not strict: which rank finds the store gone is a matter of luck.
def test_report_directory_that_cannot_be_made_under_a_launcher(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    port = free_port()
    ranks = [by_hand(rank, 2, port) for rank in range(2)]
    options = ("--select", ONE, "--deadline", "2")
    ended = run_by_hand(tmp_path / "file" / "reports", ranks, *options)
    assert_refused(ended, ["--report-dir", "Not a directory"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--select", "gradients/typo"], ["gradients/typo", "gradients/"]),
        (["--skip", "collectives/typo"], ["collectives/typo", "collectives/"]),
        (["--backend", "nccl"], ["--backend nccl", "no GPU", "--backend gloo"]),
        (["--profile", "nonsense"], ["--profile", "nonsense", "quick"]),
        (["--nproc-per-node", "0"], ["--nproc-per-node", "0"]),
        (["--deadline", "-1"], ["--deadline", "-1"]),
        (["--deadline", "nan"], ["--deadline", "nan"]),
    ],
)
def test_option_that_cannot_be_followed(
    options: Sequence[str], words: Sequence[str], tmp_path: Path
) -> None:
    assert_refused(alone(tmp_path, "run", *options), words)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"RANK": "0"}, ["WORLD_SIZE", "torchrun"]),
        ({"RANK": "0", "WORLD_SIZE": "2"}, ["MASTER_ADDR", "torchrun"]),
        (by_hand(0, 2, PORT) | {"RANK": "abc"}, ["RANK is 'abc'"]),
        (by_hand(0, 2, PORT) | {"WORLD_SIZE": "-2"}, ["WORLD_SIZE is '-2'"]),
        (by_hand(0, 2, 66660), ["MASTER_PORT is 66660", "65535"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_launcher_that_sets_nonsense(
    environment: dict[str, str], words: Sequence[str], tmp_path: Path
) -> None:
    ended = run_by_hand(tmp_path / "reports", [environment])
    assert ended.exit_codes == (2,)
    (line,) = ended.own_lines
    assert [word for word in words if word not in line] == []
    assert "Traceback" not in ended.stderr
    # A scheduler reads it in the report.
    assert ended.found() == {"launch/inconsistent-ranks": "error"}
    assert ended.stdout.count("verdict: ") == 1


def test_variable_for_an_option_that_makes_no_sense(tmp_path: Path) -> None:
    ended = alone(tmp_path, "run", DDPCHECK_PROFILE="nonsense")
    assert_refused(ended, ["DDPCHECK_PROFILE", "nonsense", "quick"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["given.json"]),
        ("{]", ["given.json", "not a ddpcheck report"]),
        ('{"format_version": 1}', ["given.json", "not a ddpcheck report"]),
        ("\x00\xff", ["given.json", "not a ddpcheck report"]),
        ('{"format_version": 99}', ["given.json", "newer"]),
    ],
    ids=["missing", "garbage", "too little", "binary", "from the future"],
)
def test_report_that_cannot_be_read(
    content: str | None, words: Sequence[str], tmp_path: Path
) -> None:
    file = tmp_path / "given.json"
    if content is not None:
        file.write_text(content, encoding="latin-1")
    assert_refused(command(tmp_path / "reports", "ddpcheck", "report", str(file)), words)


def test_directory_that_holds_no_report(tmp_path: Path) -> None:
    ended = command(tmp_path / "reports", "ddpcheck", "report", str(tmp_path))
    assert_refused(ended, [str(tmp_path)])
