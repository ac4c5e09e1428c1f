"""``ddpcheck watch`` on two GPUs: what it finds, and that it changes no number."""

from pathlib import Path

import pytest
import torch
from real_ranks import Ended, command

from ddpcheck.report import Verdict

pytestmark = pytest.mark.gpus
SCRIPT = str(Path(__file__).parent / "watched_training.py")
# cuBLAS takes deterministic ways with this alone.
TWO = {"CUDA_VISIBLE_DEVICES": "0,1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def watched(tmp_path: Path, *words: str, before: tuple[str, ...] = ("--steps", "6")) -> Ended:
    reports = tmp_path / "reports"
    started = ["ddpcheck", "watch", "--report-dir", str(reports), *before, SCRIPT, *words]
    return command(reports, *started, **TWO)


def test_losses_and_weights_are_the_same_bit_by_bit(tmp_path: Path) -> None:
    files = [tmp_path / "watched.pt", tmp_path / "alone.pt"]
    ended = watched(tmp_path, "--out", str(files[0]), before=("--steps", "0"))
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    assert (ended.report.verdict, ended.found()) == (Verdict.PASS, {})
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command(tmp_path, *launcher, SCRIPT, "--out", str(files[1]), **TWO)
    (losses, weights), (losses_alone, weights_alone) = (torch.load(each) for each in files)
    assert losses == losses_alone
    assert all(torch.equal(weights[name], weights_alone[name]) for name in weights_alone)


@pytest.mark.parametrize(
    ("fault", "finding"),
    [("same-data", "data/same-batches"), ("drift", "gradients/replicas-differ")],
)
def test_faults_are_found(tmp_path: Path, fault: str, finding: str) -> None:
    ended = watched(tmp_path, "--fault", fault)
    assert ended.found() == {finding: "error"}, ended.stdout + ended.stderr
    assert ended.exit_code == 1
