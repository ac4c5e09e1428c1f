import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from contexts import context_with
from control_groups import group, quota, within
from findings import judged

from ddpcheck.checks.environment.too_few_cores import Facts, judge, probe
from ddpcheck.finding import Severity

CHECK = "environment/too-few-cores"

SOURCE = """
import os, sys
sys.path.insert(0, sys.argv[1])
import torch
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import msgspec
import pytest
from contexts import context_with
from ddpcheck.checks.environment.too_few_cores import probe
sys.stdout.buffer.write(msgspec.json.encode(probe(context_with(environ=dict(os.environ)))))
"""


def test_ranks_that_are_really_bound_to_one_core() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SOURCE, str(Path(__file__).parents[2])],
        env=os.environ | {"OMP_NUM_THREADS": "3"},
        check=True,
        capture_output=True,
    )
    facts = msgspec.json.decode(done.stdout, type=Facts)
    # MKL starts no more threads than there are cores, whatever was asked for.
    assert facts.asked == "3"
    assert 1 <= facts.threads <= 3
    assert facts.cores == str(min(os.sched_getaffinity(0)))
    (finding,) = judged(CHECK, dict.fromkeys(range(2), facts))
    assert (finding.id, finding.severity, finding.ranks) == (CHECK, Severity.WARNING, (0, 1))
    assert f"may use core {facts.cores} of {facts.core_count}" in finding.message
    assert "export OMP_NUM_THREADS=1" in finding.fix
    assert "srun --cpu-bind=cores" in finding.fix
    assert ("one core" in finding.title) == (facts.core_count > 1)


def test_this_machine_is_fine() -> None:
    facts = msgspec.structs.replace(probe(context_with()), threads=1)
    assert judge(dict.fromkeys(range(8), facts)) == []


def threads_in_group(cores: float) -> Facts:
    """Return the facts of a rank with two threads in a container with the time of so many cores."""
    source = SOURCE.replace("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n", "")
    with group("cpu", quota(cores)) as folder:
        done = subprocess.run(
            within(folder, [sys.executable, "-c", source, str(Path(__file__).parents[2])]),
            env=os.environ | {"OMP_NUM_THREADS": "2"},
            check=True,
            capture_output=True,
        )
    return msgspec.json.decode(done.stdout, type=Facts)


@pytest.mark.skipif(os.cpu_count() == 1, reason="two threads need two cores")
def test_ranks_in_a_container_with_little_time() -> None:
    (finding,) = judged(CHECK, dict.fromkeys(range(2), threads_in_group(0.9)))
    assert (finding.id, finding.severity, finding.ranks) == (CHECK, Severity.WARNING, (0, 1))
    assert finding.title == "OMP_NUM_THREADS is too high"
    assert "time for 0.9 of them; OMP_NUM_THREADS=2" in finding.message
    assert "export OMP_NUM_THREADS=1" in finding.fix
    assert "docker run --cpus" in finding.fix


@pytest.mark.skipif(os.cpu_count() == 1, reason="two threads need two cores")
def test_ranks_in_a_container_with_time_enough() -> None:
    assert judged(CHECK, {0: threads_in_group(1.5)}) == []
