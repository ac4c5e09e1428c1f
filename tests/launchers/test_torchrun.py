"""``ddpcheck run`` as a worker of torch's own launchers, which meet at a port that was given.

How it runs under ``torchrun --standalone`` many other tests show.
"""

from pathlib import Path

import pytest
from real_ranks import free_port
from started import assert_healthy, ddpcheck, python, start

from ddpcheck.report import read_report


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param("torch.distributed.run", id="torchrun"),
        pytest.param(
            "torch.distributed.launch",
            id="launch, which adds --local-rank",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_each_worker_of_torchs_launchers_is_a_rank(launcher: str, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    words = ["-m", launcher, "--nproc-per-node", "2", "--master-port", str(free_port())]
    assert_healthy(start(reports, *python(*words, *ddpcheck(reports))), "torchrun")


@pytest.mark.thorough
def test_two_commands_of_one_job_each_have_their_verdict(tmp_path: Path) -> None:
    # The agent's store outlives the first one.
    folders = [tmp_path / "one", tmp_path / "two"]
    script = " && ".join(
        " ".join(python(*ddpcheck(each, "--select", "launch"))) for each in folders
    )
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = start(folders[0], *python(*words, "--no-python", "bash", "-c", script))
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout.count("verdict: PASS") == len(folders)
    assert [read_report(each / "latest").run.world_size for each in folders] == [2, 2]
