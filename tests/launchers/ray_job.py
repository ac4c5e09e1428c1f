"""A job of Ray Train whose two workers each run a command; it leaves how each ended, as JSON."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import ray
from ray.train import RunConfig, ScalingConfig, get_context
from ray.train.torch import TorchTrainer

WORKERS = 2
# By itself Ray takes a third of the memory; its least is 75 MiB.
OBJECT_STORE_BYTES = 100 * 1024 * 1024


def work(job: dict[str, str]) -> None:
    """Be one worker, whose process group is up: run the command to its end."""
    done = subprocess.run(json.loads(job["command"]), capture_output=True, text=True, check=False)
    told = {"exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    place = Path(job["folder"]) / f"rank{get_context().get_world_rank()}.json"
    place.write_text(json.dumps(told))


def main(folder: str, command: str) -> None:
    """Run the job on a Ray of its own."""
    with tempfile.TemporaryDirectory(prefix="ray") as own:
        ray.init(
            num_cpus=WORKERS,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=own,
        )
        TorchTrainer(
            work,
            train_loop_config={"folder": folder, "command": command},
            scaling_config=ScalingConfig(num_workers=WORKERS, use_gpu=False),
            run_config=RunConfig(storage_path=folder),
        ).fit()
        ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
