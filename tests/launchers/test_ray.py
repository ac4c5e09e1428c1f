"""``ddpcheck run`` started by the workers of Ray Train, which have a process group of their own."""

import json
from pathlib import Path

import pytest
from real_ranks import Ended
from started import assert_healthy, ddpcheck, python, start

pytest.importorskip("ray.train", reason="no ray.train: pip install 'ddpcheck[launchers]'")

JOB = Path(__file__).parent / "ray_job.py"
# It calls no one, and uses no more than it needs.
SPARING = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}


def test_what_each_worker_of_ray_starts_is_a_rank(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    command = json.dumps(python(*ddpcheck(reports)))
    job = start(reports, *python(str(JOB), str(tmp_path), command), **SPARING)
    assert job.exit_code == 0, job.stderr
    told = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    codes = tuple(each["exit_code"] for each in told)
    stdout, stderr = ("".join(each[name] for each in told) for name in ("stdout", "stderr"))
    assert_healthy(Ended(codes, stdout, stderr, job.took_s, reports), "ray")
