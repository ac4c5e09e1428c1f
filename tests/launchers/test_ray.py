"""The workers of Ray Train, which have a process group of their own, start ``run``, and train."""

import json
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest
from packages import require
from real_ranks import Ended, run
from started import assert_healthy, assert_trained, ddpcheck, python, start

from ddpcheck.errors import UsageError
from ddpcheck.train.ray import TrainingFailedError, settings_from, train_worker

# Far above what Ray takes to start, and two commands beside it, on a busy machine.
LIMIT_S = 240.0
# By itself Ray would take a third of the memory for its objects; its least is 75 MiB.
RAY = """
import sys
import ray

ray.init(
    num_cpus=2,
    include_dashboard=False,
    object_store_memory=100 * 2**20,
    _node_ip_address="127.0.0.1",
    _temp_dir=sys.argv.pop(1),
)
"""
# Each worker runs the command given, and leaves how it ended.
COMMANDS = """
import json, subprocess
from pathlib import Path
from ray.train import RunConfig, ScalingConfig, get_context
from ray.train.torch import TorchTrainer

folder, command = sys.argv[1:]

def work():
    done = subprocess.run(json.loads(command), capture_output=True, text=True)
    told = {"exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    (Path(folder) / f"rank{get_context().get_world_rank()}.json").write_text(json.dumps(told))

workers = ScalingConfig(num_workers=2, use_gpu=False)
TorchTrainer(work, scaling_config=workers, run_config=RunConfig(storage_path=folder)).fit()
"""
# "python -m ddpcheck.train.ray", in the Ray that is up.
TRAINING = """
import runpy
runpy.run_module("ddpcheck.train.ray", run_name="__main__")
"""
# It calls no one, and nobody else calls it; by itself it would leave a token in the home folder.
OURS_ALONE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}


def under_ray(folder: Path, job: str, *words: str) -> Ended:
    """Run a script of this text, with these words, where a Ray of two processors is up."""
    require("ray", "pyarrow")
    script = folder / "job.py"
    script.write_text(RAY + job + "\nray.shutdown()\n")
    # Ray keeps results there unless it is told where.
    variables = OURS_ALONE | {"RAY_AUTH_TOKEN": uuid4().hex, "HOME": str(folder)}
    # Its sockets lie there: their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray") as own:
        started = python(str(script), own, *words)
        return start(folder / "reports", *started, limit_s=LIMIT_S, **variables)


def test_what_each_worker_of_ray_starts_is_a_rank(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    command = json.dumps(python(*ddpcheck(reports)))
    job = under_ray(tmp_path, COMMANDS, str(tmp_path), command)
    assert job.exit_code == 0, job.stderr
    told = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    codes = tuple(each["exit_code"] for each in told)
    stdout, stderr = ("".join(each[name] for each in told) for name in ("stdout", "stderr"))
    assert_healthy(Ended(codes, stdout, stderr, job.took_s, reports), "ray")


def test_two_workers_of_ray_train(tmp_path: Path) -> None:
    checked = run(tmp_path / "reports", "--select", "launch")
    report = f"report={checked.report_dir / 'latest'}"
    words = (report, "strategy=fsdp", "steps=12", "global_batch=8")
    ended = under_ray(tmp_path, TRAINING, "2", *words)
    assert ended.exit_code == 0, ended.stderr
    assert_trained(checked.report, "fsdp")


def test_a_training_that_fails_is_an_error_for_ray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The worker's output says why; Ray ends the job for what its function raises.
    monkeypatch.setenv("RANK", "0")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(TrainingFailedError, match="exit code 2"):
        train_worker({"report": str(tmp_path / "missing")})


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"step": "3"}, "step: choose from report, "),
        ({"steps": "few"}, "steps"),
        ({"strategy": "magic"}, "strategy magic: choose from ddp, "),
    ],
)
def test_settings_that_there_are_not_are_told(config: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        settings_from(config)


def test_settings_may_be_texts() -> None:
    settings = settings_from({"steps": "3", "verify": "true", "strategy": "all"})
    assert (settings.steps, settings.verify, settings.strategy) == (3, True, "all")
