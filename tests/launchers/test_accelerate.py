"""``ddpcheck run`` as a worker of ``accelerate launch``, and what that makes of two CPU processes."""

from pathlib import Path

from packages import require
from real_ranks import free_port
from started import assert_healthy, ddpcheck, python, start


def launch(report_dir: Path, *options: str) -> list[str]:
    """Return ``accelerate launch`` with two processes, and everything said that it asks for."""
    require("accelerate")
    said = ["--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no"]
    said += ["--dynamo_backend", "no", "--main_process_port", str(free_port())]
    launcher = python("-m", "accelerate.commands.launch", *options, *said)
    return [*launcher, *ddpcheck(report_dir)]


def test_each_worker_of_accelerate_is_a_rank(tmp_path: Path) -> None:
    # "multi_gpu" is its name for torchrun, whatever the workers run on.
    reports = tmp_path / "reports"
    assert_healthy(start(reports, *launch(reports, "--multi_gpu")), "accelerate")


def test_accelerate_starts_one_process_on_cpus_and_that_starts_the_ranks(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    assert_healthy(start(reports, *launch(reports, "--cpu")), "ddpcheck")
