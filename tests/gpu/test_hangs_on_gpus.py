"""A watched script whose ranks wait on two GPUs for each other is reported on within seconds."""

from pathlib import Path

import pytest
from real_ranks import Ended, command

from ddpcheck.errors import ExitCode

pytestmark = pytest.mark.gpus
SCRIPT = str(Path(__file__).parent / "hanging_training.py")
# Those 10 s that are promised, and the start of the ranks and their steps.
BOUND_S = 45.0


def watched(tmp_path: Path, fault: str) -> Ended:
    reports = tmp_path / "reports"
    words = ["ddpcheck", "watch", "--report-dir", str(reports), SCRIPT, fault]
    return command(reports, *words, CUDA_VISIBLE_DEVICES="0,1")


@pytest.mark.parametrize(
    ("fault", "finding", "words"),
    [
        ("evaluates-on-rank-0", "ranks/other-collective", "broadcast float32[256]"),
        ("skips-on-rank-1", "ranks/other-collective", "in main"),
        ("both-receive", "ranks/stalled", "from rank 1, asked for at"),
        ("other-order", "ranks/other-collective", "hanging_training.py:30"),
    ],
)
def test_a_standstill_is_told(tmp_path: Path, fault: str, finding: str, words: str) -> None:
    ended = watched(tmp_path, fault)
    assert ended.exit_code == ExitCode.INCOMPLETE, ended.stdout + ended.stderr
    (told,) = [each for each in ended.report.findings if each.id == finding]
    assert (told.ranks, told.severity) == ((0, 1), "error")
    assert words in told.message
    assert ended.took_s < BOUND_S


def test_a_rank_that_is_slow_keeps_nobody_from_the_end(tmp_path: Path) -> None:
    ended = watched(tmp_path, "slow")
    assert (ended.found(), ended.exit_code) == ({}, 0), ended.stdout + ended.stderr
    assert ended.stdout.count("came to its end") == 2
