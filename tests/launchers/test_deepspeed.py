"""``ddpcheck`` started by DeepSpeed's own launcher, which hands each process a --local_rank."""

from pathlib import Path

from packages import require
from real_ranks import Ended, free_port, run
from started import SHORT_TRAINING, assert_healthy, assert_trained, ddpcheck, python, start

# The launcher and both of its processes import DeepSpeed, which takes as long as torch.
LIMIT_S = 180.0


def launched(report_dir: Path, words: list[str]) -> Ended:
    """Run ``deepspeed --module WORDS`` with two processes."""
    require("deepspeed")
    launcher = ["-m", "deepspeed.launcher.runner", "--num_gpus", "2"]
    launcher += ["--master_port", str(free_port()), "--module"]
    started = python(*launcher, *words)
    return start(report_dir, *started, limit_s=LIMIT_S, DS_ACCELERATOR="cpu")


def test_each_process_of_deepspeed_is_a_rank(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    ended = launched(reports, ddpcheck(reports)[1:])  # it says -m by itself
    assert ended.stdout.count("--local_rank=") == 2, ended.stdout
    assert_healthy(ended, "deepspeed")


def test_the_processes_of_deepspeed_train_with_deepspeed(tmp_path: Path) -> None:
    checked = run(tmp_path / "reports", "--select", "launch")
    report = ["--from", str(checked.report_dir / "latest")]
    words = ["ddpcheck", "train", *report, *SHORT_TRAINING, "--strategy", "deepspeed"]
    ended = launched(checked.report_dir, words)
    assert ended.exit_code == 0, ended.stderr
    assert_trained(checked.report, "deepspeed")
