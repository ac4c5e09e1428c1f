"""``ddpcheck run`` started by DeepSpeed's own launcher, which hands each process a --local_rank."""

from pathlib import Path

from real_ranks import free_port
from started import assert_healthy, ddpcheck, python, require, start


def test_each_process_of_deepspeed_is_a_rank(tmp_path: Path) -> None:
    require("deepspeed")
    reports = tmp_path / "reports"
    launcher = ["-m", "deepspeed.launcher.runner", "--num_gpus", "2"]
    launcher += ["--master_port", str(free_port()), "--module"]
    words = ddpcheck(reports)[1:]  # it says -m by itself
    ended = start(reports, *python(*launcher, *words), DS_ACCELERATOR="cpu")
    assert ended.stdout.count("--local_rank=") == 2, ended.stdout
    assert_healthy(ended, "deepspeed")
