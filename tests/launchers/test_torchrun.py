"""``ddpcheck run`` as a worker of torch's own launchers, by each way in which these meet."""

from pathlib import Path

import pytest
from real_ranks import free_port
from started import assert_healthy, ddpcheck, python, start


@pytest.mark.parametrize(
    ("launcher", "static"),
    [
        pytest.param("torch.distributed.run", False, id="torchrun --standalone"),
        pytest.param("torch.distributed.run", True, id="torchrun --master-port"),
        pytest.param("torch.distributed.launch", True, id="launch, which adds --local-rank"),
    ],
)
def test_each_worker_of_torchs_launchers_is_a_rank(
    launcher: str, static: bool, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    meeting = ["--master-port", str(free_port())] if static else ["--standalone"]
    words = ["-m", launcher, "--nproc-per-node", "2", *meeting]
    assert_healthy(start(reports, *python(*words, *ddpcheck(reports))), "torchrun")
