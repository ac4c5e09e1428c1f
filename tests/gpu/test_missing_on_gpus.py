"""A rank that sees no GPU beside one that does: pytest -n 0 -m gpus. One GPU is enough."""

import subprocess
import sys
from pathlib import Path

import pytest
from real_ranks import LIMIT_S, by_hand, clean_environment, free_port, short

from ddpcheck.report import Report, Verdict, read_report

pytestmark = pytest.mark.gpus
MISSING = "devices/missing-gpu"
HIDDEN = "rank 1 ({host}): CUDA_VISIBLE_DEVICES is ''; 1 of 2 ranks see a GPU"


def run(folder: Path, masks: tuple[str, str], *options: str) -> tuple[list[int], Report, str]:
    """Start two ranks with these masks; return their exit codes, the report and what was said."""
    port, reports = free_port(), folder / "reports"
    words = [sys.executable, "-m", "ddpcheck", "run", *short(reports), *options]
    ranks = [
        subprocess.Popen(
            words,
            env=clean_environment() | by_hand(rank, 2, port) | {"CUDA_VISIBLE_DEVICES": mask},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, mask in enumerate(masks)
    ]
    told = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
    said = "\n".join(text for texts in told for text in texts)
    return [rank.returncode for rank in ranks], read_report(reports / "latest"), said


@pytest.mark.parametrize("backend", ["auto", "nccl"])
def test_a_rank_without_a_gpu_is_named_with_the_cause(backend: str, tmp_path: Path) -> None:
    codes, report, said = run(tmp_path, ("0", ""), "--backend", backend)
    assert codes == [1, 1], said
    (finding,) = (each for each in report.findings if each.id == MISSING)
    assert (finding.severity, finding.ranks) == ("error", (1,))
    assert finding.message == HIDDEN.format(host=report.ranks[1].host)


@pytest.mark.parametrize(
    ("masks", "backend"), [(("", ""), "auto"), (("", ""), "gloo"), (("0", ""), "gloo")]
)
def test_who_means_the_cpu_has_no_finding(
    masks: tuple[str, str], backend: str, tmp_path: Path
) -> None:
    codes, report, said = run(tmp_path, masks, "--backend", backend)
    assert codes == [0, 0], said
    assert (report.verdict, report.run.backend) == (Verdict.PASS, "gloo")
