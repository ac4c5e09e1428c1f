"""What a watched script does on its own terms: uneven steps, a report midway, signals of its own."""

import re
from pathlib import Path

import pytest
from real_ranks import watch

from ddpcheck.report import RankOutcome, Verdict

SCRIPT = str(Path(__file__).parent / "scripts" / "joins.py")
DRIFTS = str(Path(__file__).parent / "scripts" / "drifts.py")
LAST_STEP = 1499


@pytest.mark.parametrize("then", ["stop", "continue"])
def test_ranks_that_wait_for_one_at_its_report_are_not_to_blame(tmp_path: Path, then: str) -> None:
    ended = watch(tmp_path / "reports", "--steps", "6", "--then", then, SCRIPT)
    assert (ended.exit_code, ended.found()) == (0, {}), ended.stdout + ended.stderr
    assert ended.report.verdict is Verdict.PASS
    assert {each.outcome for each in ended.report.ranks} == {RankOutcome.OK}
    assert [f"rank {rank} made" in ended.stdout for rank in (0, 1)] == [then == "continue"] * 2


def test_a_signal_that_the_script_handles_is_left_to_it(tmp_path: Path) -> None:
    ended = watch(tmp_path / "reports", "--steps", "0", SCRIPT, "--preempted-in", "2")
    assert (ended.exit_code, ended.found()) == (0, {}), ended.stdout + ended.stderr
    assert ended.stdout.count("made 3 steps, saved") == 2


def test_replicas_that_drift_are_told_of_while_the_script_runs(tmp_path: Path) -> None:
    ended = watch(tmp_path / "reports", "--steps", "0", DRIFTS)
    told = re.findall(r"differ from step (\d+) on \(rank 0-1\), seen in step (\d+)", ended.stderr)
    assert [int(since) for since, _ in told] == [3]
    assert int(told[0][1]) < LAST_STEP
    assert ended.found() == {"gradients/replicas-differ": "error"}
