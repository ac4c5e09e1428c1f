"""Scripts that torchrun starts again, under ``ddpcheck watch``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from real_ranks import clean_environment

from ddpcheck.finding import Severity
from ddpcheck.report import Report, read_report

WRONG_FROM_THE_START = "import torch\nimport a_package_that_nobody_has\n"
NEVER_MET_IN_BETWEEN = """import os
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "1":
    raise RuntimeError("Gloo connectFullMesh failed with [pair.cc:152] Connection refused")
import a_package_that_nobody_has
"""
WRONG_IN_TRAINING = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    if step == 3:
        raise OSError("the file system went away")
    optimizer.zero_grad()
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
"""


def reports(tmp_path: Path, script: str, restarts: int) -> list[Report]:
    """Return the reports that starts of this script left, in order."""
    (tmp_path / "train.py").write_text(script)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    watch = ("-m", "ddpcheck", "watch", "--report-dir", "reports", "train.py")
    subprocess.run(
        [sys.executable, *torchrun, "--max-restarts", str(restarts), *watch],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        timeout=90,
        check=False,
    )
    folders = sorted(tmp_path.glob("reports/ddpcheck-*"))
    return [read_report(folder) for folder in folders]


def test_what_is_wrong_from_the_start_is_told_with_its_line(tmp_path: Path) -> None:
    first, second = (
        {each.id: each for each in report.findings}
        for report in reports(tmp_path, WRONG_FROM_THE_START, 1)
    )
    assert "launch/restarted-in-vain" not in first
    last = second["launch/restarted-in-vain"]
    assert (last.severity, last.ranks) == (Severity.ERROR, (0, 1))
    assert last.title == "2 starts failed in the same way"
    assert "No module named 'a_package_that_nobody_has'" in last.message
    assert last.location is not None
    assert (Path(last.location.file).name, last.location.line) == ("train.py", 2)


@pytest.mark.thorough
def test_a_start_in_which_ranks_never_met_is_passed_over(tmp_path: Path) -> None:
    *before, last = reports(tmp_path, NEVER_MET_IN_BETWEEN, 2)
    assert all(each.id != "launch/restarted-in-vain" for own in before for each in own.findings)
    (found,) = [each for each in last.findings if each.id == "launch/restarted-in-vain"]
    assert (found.title, found.ranks) == ("2 starts failed in the same way", (0, 1))


def test_a_training_that_nobody_starts_again(tmp_path: Path) -> None:
    (report,) = reports(tmp_path, WRONG_IN_TRAINING, 0)
    found = {each.id: each for each in report.findings}
    assert found["launch/never-restarted"].severity is Severity.INFO
    assert "after 3 steps" in found["launch/never-restarted"].message
    assert found["gradients/step-raised"].severity is Severity.ERROR
    assert "launch/restarted-in-vain" not in found
