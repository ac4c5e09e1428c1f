"""``ddpcheck watch`` on real ranks: the script runs as it would by itself, and is reported on."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from real_ranks import Ended, command, watch

from ddpcheck.errors import ExitCode
from ddpcheck.finding import Severity
from ddpcheck.report import RankOutcome, Verdict

# Far below gloo's timeout of half an hour.
BOUND_S = 45.0
SCRIPT = str(Path(__file__).parent / "scripts" / "plain.py")


def watched(tmp_path: Path, *words: str, before: tuple[str, ...] = ("--steps", "4")) -> Ended:
    return watch(tmp_path / "reports", *before, SCRIPT, *words)


def test_a_healthy_script_passes_and_is_started_as_by_python(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--steps", "6")
    assert ended.found() == {}
    assert (ended.exit_code, ended.report.verdict) == (0, Verdict.PASS)
    assert "started as plain.py ['--steps', '6'] scripts" in ended.stdout
    assert "came to its end" not in ended.stdout
    (line,) = ended.own_lines
    assert "watched for 4 optimizer steps and is stopped here: --steps 0" in line
    summaries = {each.id: each.summary for each in ended.report.checks}
    assert "over 4 steps" in summaries["gradients/replicas-differ"]


def test_a_script_may_go_on_with_nothing_of_ddpcheck_left(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--end-with", "7", before=("--steps", "2", "--then", "continue"))
    assert ended.report.verdict is Verdict.PASS
    assert ended.stdout.count("backward is torch._tensor") == 2
    assert ended.stdout.count("came to its end") == 2
    assert ended.exit_code == 7


def test_a_script_that_ends_before_is_reported_on(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--steps", "2", before=("--steps", "0"))
    assert ended.stdout.count("came to its end") == 2
    assert (ended.exit_code, ended.found()) == (0, {})


def test_a_script_that_trains_nothing_is_no_pass(tmp_path: Path) -> None:
    script = tmp_path / "idle.py"
    script.write_text("print('nothing to do')\n")
    ended = watch(tmp_path / "reports", str(script))
    assert ended.found() == {"gradients/no-step-seen": "warning"}
    assert (ended.exit_code, ended.report.verdict) == (0, Verdict.WARN)


def test_gradients_that_no_one_averages_are_found(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--fault", "bare")
    assert ended.found() == {"gradients/replicas-differ": "error"}
    assert ended.exit_code == ExitCode.FINDINGS


def test_the_same_order_in_each_epoch_is_found_at_its_loop(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--fault", "epoch", "--steps", "12", before=("--steps", "10"))
    assert ended.found() == {"data/epoch-not-set": "error"}
    (finding,) = [f for f in ended.report.findings if f.severity is Severity.ERROR]
    assert finding.ranks == (0, 1)
    assert finding.location is not None
    line = Path(SCRIPT).read_text().splitlines()[finding.location.line - 1]
    assert "in loader:" in line


def test_the_same_data_on_each_rank_is_found(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--fault", "same-data")
    assert ended.found() == {"data/same-batches": "error"}
    (finding,) = [f for f in ended.report.findings if f.severity is Severity.ERROR]
    assert finding.ranks == (0, 1)
    assert finding.location is not None
    assert Path(finding.location.file).name == "plain.py"


def test_several_epochs_of_a_healthy_script_pass(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--steps", "20", before=("--steps", "18"))
    assert (ended.found(), ended.exit_code) == ({}, 0)


def test_a_rank_that_raises_is_named_with_its_line(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--fault", "raise")
    assert "ValueError: no such label" in ended.stderr
    assert "runpy" not in ended.stderr
    (finding,) = [f for f in ended.report.findings if f.severity is Severity.ERROR]
    assert finding.ranks == (1,)
    assert finding.location is not None
    assert Path(finding.location.file).name == "plain.py"
    assert "no such label" in finding.message
    assert ended.exit_code != 0


def test_a_rank_that_dies_is_named(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--fault", "die")
    assert ended.exit_code == ExitCode.INCOMPLETE
    outcomes = {each.rank: each.outcome for each in ended.report.ranks}
    assert outcomes == {0: RankOutcome.OK, 1: RankOutcome.LOST}
    assert ended.found() == {"ranks/lost": "error"}


def test_a_rank_that_raises_before_its_group_is_made_is_named(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--fault", "raise-early")
    assert ended.found() == {"gradients/step-raised": "error"}
    (finding,) = [f for f in ended.report.findings if f.severity is Severity.ERROR]
    assert finding.ranks == (1,)
    assert ended.took_s < BOUND_S


def test_a_rank_that_exits_early_lets_its_peers_fail_as_they_would(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--fault", "exit-early")
    assert ended.exit_code != 0
    assert ended.took_s < BOUND_S


def test_an_observer_that_raises_does_not_end_the_script(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--fault", "odd-batch", before=("--steps", "2", "--then", "continue"))
    assert ended.stdout.count("came to its end") == 2


def test_averages_of_the_model_can_be_copied(tmp_path: Path) -> None:
    ended = watched(tmp_path, "--fault", "copy", before=("--steps", "0"))
    assert ended.stdout.count("came to its end") == 2
    assert ended.found() == {}


def test_watching_changes_no_number(tmp_path: Path) -> None:
    watched(tmp_path, "--out", str(tmp_path / "watched.pt"), before=("--steps", "0"))
    launcher = ("torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    command(tmp_path / "reports", *launcher, SCRIPT, "--out", str(tmp_path / "plain.pt"))
    with_it, without = (torch.load(tmp_path / f"{name}.pt") for name in ("watched", "plain"))
    assert with_it[0] == without[0]
    assert all(torch.equal(with_it[1][name], tensor) for name, tensor in without[1].items())
    assert torch.equal(with_it[2], without[2])


def test_under_torchrun(tmp_path: Path) -> None:
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    words = ["--report-dir", str(tmp_path / "reports"), "--steps", "3"]
    ended = command(tmp_path / "reports", *launcher, "-m", "ddpcheck", "watch", *words, SCRIPT)
    assert (ended.exit_code, ended.found()) == (0, {})
    assert ended.report.run.launcher == "torchrun"


def test_a_module(tmp_path: Path) -> None:
    words = ["watch", "--report-dir", str(tmp_path / "reports"), "--steps", "2"]
    module = ["-m", "scripts.plain", "--steps", "3"]
    here = str(Path(SCRIPT).parents[1])
    ended = command(
        tmp_path / "reports",
        "ddpcheck",
        *words,
        *module,
        PYTHONPATH=f"{here}:{os.environ.get('PYTHONPATH', '')}",
    )
    assert (ended.exit_code, ended.found()) == (0, {})
    assert "started as plain.py ['--steps', '3']" in ended.stdout


def test_a_script_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    ended = watch(tmp_path / "reports", "nowhere.py")
    assert ended.exit_code == ExitCode.USAGE
    assert ended.own_lines == [
        "ddpcheck: there is no script nowhere.py: name a file, or a module with -m"
    ]
