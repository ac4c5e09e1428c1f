import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from control_groups import group, tasks, within
from findings import judged

from ddpcheck.checks.environment.low_processes import Facts
from ddpcheck.finding import Finding, Severity

CHECK = "environment/low-processes"
# Nobody else is this user.
USER = 54_321 + os.getpid()
AS_USER = f"""
import os, resource, sys
import msgspec
from contexts import context_with
from ddpcheck.checks.environment.low_processes import probe
limit = int(sys.argv[1])
probe(context_with())  # another user may not read the modules that it imports
if limit:
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    os.setresuid({USER}, {USER}, {USER})
sys.stdout.buffer.write(msgspec.json.encode(probe(context_with())))
"""


def found(prefix: list[str], user_limit: int = 0) -> list[Finding]:
    """Return what is found of two ranks that are started so."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", AS_USER, str(user_limit)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        check=True,
        capture_output=True,
    )
    facts = msgspec.json.decode(done.stdout, type=Facts)
    return judged(CHECK, dict.fromkeys(range(2), facts))


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs root")
def test_a_user_who_may_have_few_processes() -> None:
    (finding,) = found([], user_limit=20)
    assert (finding.id, finding.severity, finding.ranks) == (CHECK, Severity.WARNING, (0, 1))
    assert "node0 (rank 0-1) the user (ulimit -u) is limited to 20" in finding.message
    assert "ulimit -u" in finding.fix


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs root")
def test_a_user_who_may_have_many() -> None:
    assert found([], user_limit=100) == []


def test_a_container_that_may_have_few_processes() -> None:
    with group("pids", tasks(20)) as folder:
        (finding,) = found(within(folder, []))
    assert (finding.id, finding.severity, finding.ranks) == (CHECK, Severity.WARNING, (0, 1))
    assert "the control group (pids.max) is limited to 20" in finding.message
    assert "docker run --pids-limit -1" in finding.fix


def test_a_container_that_may_have_many() -> None:
    with group("pids", tasks(200)) as folder:
        assert found(within(folder, [])) == []
