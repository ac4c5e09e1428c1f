"""``ddpcheck run`` started by the workers of Ray Train, which have a process group of their own."""

import json
import tempfile
from pathlib import Path
from uuid import uuid4

from real_ranks import Ended
from started import assert_healthy, ddpcheck, python, require, start

# Far above what Ray takes to start, and two commands beside it, on a busy machine.
LIMIT_S = 240.0
# Each worker runs the command given, and leaves how it ended. By itself Ray would take a third of
# the memory for its objects; its least is 75 MiB.
JOB = """
import json, subprocess, sys
from pathlib import Path
import ray
from ray.train import RunConfig, ScalingConfig, get_context
from ray.train.torch import TorchTrainer

folder, own, command = sys.argv[1:]

def work():
    done = subprocess.run(json.loads(command), capture_output=True, text=True)
    told = {"exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    (Path(folder) / f"rank{get_context().get_world_rank()}.json").write_text(json.dumps(told))

ray.init(
    num_cpus=2,
    include_dashboard=False,
    object_store_memory=100 * 2**20,
    _node_ip_address="127.0.0.1",
    _temp_dir=own,
)
workers = ScalingConfig(num_workers=2, use_gpu=False)
TorchTrainer(work, scaling_config=workers, run_config=RunConfig(storage_path=folder)).fit()
ray.shutdown()
"""
# It calls no one, and nobody else calls it; by itself it would leave a token in the home folder.
OURS_ALONE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}


def test_what_each_worker_of_ray_starts_is_a_rank(tmp_path: Path) -> None:
    require("ray", "pyarrow")
    reports, script = tmp_path / "reports", tmp_path / "job.py"
    script.write_text(JOB)
    command = json.dumps(python(*ddpcheck(reports)))
    variables = OURS_ALONE | {"RAY_AUTH_TOKEN": uuid4().hex}
    # Its sockets lie there: their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray") as own:
        words = python(str(script), str(tmp_path), own, command)
        job = start(reports, *words, limit_s=LIMIT_S, **variables)
    assert job.exit_code == 0, job.stderr
    told = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    codes = tuple(each["exit_code"] for each in told)
    stdout, stderr = ("".join(each[name] for each in told) for name in ("stdout", "stderr"))
    assert_healthy(Ended(codes, stdout, stderr, job.took_s, reports), "ray")
