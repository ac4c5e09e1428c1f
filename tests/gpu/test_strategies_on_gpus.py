"""Every strategy on the GPUs that are there, compared with one process: pytest -n 0 -m gpus."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from real_ranks import clean_environment
from verified import results, write_sample

from ddpcheck.report import read_report

pytestmark = pytest.mark.gpus
HERE = Path(__file__).parent
# All rows of one precision, with NCCL groups of their own for each mesh.
LIMIT_S = 400.0


def on_all_gpus(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m WORDS`` with all GPUs of this machine in sight."""
    every = ",".join(str(number) for number in range(torch.cuda.device_count()))
    environment = clean_environment() | {"CUDA_VISIBLE_DEVICES": every}
    ended = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=LIMIT_S,
    )
    print(ended.stdout)
    return ended


def verified(folder: Path, *words: str) -> list[dict[str, Any]]:
    """Return the rows of ``ddpcheck train --verify WORDS``, of which none may have failed."""
    write_sample(folder)
    started = ["ddpcheck", "train", "--from", str(folder), "--force", "--backend", "nccl"]
    ended = on_all_gpus(*started, "--verify", *words)
    training = read_report(folder).training
    assert ended.returncode == 0, ended.stdout + ended.stderr[-4000:]
    assert training is not None
    rows: list[dict[str, Any]] = training["parity"]
    return rows


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_all_strategies_train_what_one_process_trains(tmp_path: Path, precision: str) -> None:
    rows = verified(tmp_path, "--strategy", "all", "--precision", precision)
    assert {row["result"] for row in rows} <= {"pass", "skip"}
    seen = results(rows)
    gpus = torch.cuda.device_count()
    passed = {row["strategy"] for row in rows if row["result"] == "pass"}
    assert passed >= {"ddp", "fsdp", "pp", "tp", "zero1"} | ({"hsdp"} if gpus % 4 == 0 else set())
    # What gloo alone does not let happen.
    assert seen[f"fsdp dp={gpus} cpu_offload"] == "pass"
    assert seen[f"ddp dp={gpus} bf16_compression"] == "pass"


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "tp", "pp"])
def test_nccl_alone_is_enough(tmp_path: Path, strategy: str) -> None:
    """Beside shards that wait in RAM, ``all`` has gloo for what is on the CPU."""
    (row,) = verified(tmp_path, "--strategy", strategy)
    assert row["result"] == "pass"


def test_batch_norm_is_that_of_the_whole_batch_where_it_is_synchronized() -> None:
    assert apart("sync") < 1e-9


def test_and_that_of_a_rank_where_it_is_not() -> None:
    assert apart("plain") > 1e-3


def apart(batch_norm: str) -> float:
    """Return how far DDP's gradients of the conv net are from those of one process."""
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = on_all_gpus(*launcher, str(HERE / "batch_norm_gradients.py"), batch_norm)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return float(ended.stdout)
