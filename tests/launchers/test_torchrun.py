"""``ddpcheck run`` as a worker of torch's own launchers, which meet at a port that was given.

How it runs under ``torchrun --standalone`` many other tests show.
"""

from pathlib import Path

import pytest
from real_ranks import free_port
from started import assert_healthy, ddpcheck, python, start


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param("torch.distributed.run", id="torchrun"),
        pytest.param("torch.distributed.launch", id="launch, which adds --local-rank"),
    ],
)
def test_each_worker_of_torchs_launchers_is_a_rank(launcher: str, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    words = ["-m", launcher, "--nproc-per-node", "2", "--master-port", str(free_port())]
    assert_healthy(start(reports, *python(*words, *ddpcheck(reports))), "torchrun")
