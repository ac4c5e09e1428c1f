import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from control_groups import group, memory, within
from findings import judged

from ddpcheck.checks.environment.low_memory import Facts
from ddpcheck.finding import Finding, Severity

CHECK = "environment/low-memory"
MIB = 2**20
SOURCE = (
    "import sys, msgspec\n"
    "from contexts import context_with\n"
    "from ddpcheck.checks.environment.low_memory import probe\n"
    "sys.stdout.buffer.write(msgspec.json.encode(probe(context_with())))\n"
)


def found(limit_bytes: int) -> list[Finding]:
    """Return what is found of two ranks in a control group with this limit on memory."""
    with group("memory", memory(limit_bytes)) as folder:
        done = subprocess.run(
            within(folder, [sys.executable, "-c", SOURCE]),
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            check=True,
            capture_output=True,
        )
    facts = msgspec.json.decode(done.stdout, type=Facts)
    if facts.limited_by == "the machine":
        pytest.skip(f"this machine has less than {limit_bytes} bytes left")
    return judged(CHECK, dict.fromkeys(range(2), facts))


def test_a_container_with_hardly_any_memory() -> None:
    (finding,) = found(128 * MIB)
    assert (finding.id, finding.severity, finding.ranks) == (CHECK, Severity.WARNING, (0, 1))
    assert "node0 (rank 0-1) the control group has" in finding.message
    assert "left of 128 MiB; 2 rank(s) take 172 MiB more" in finding.message
    assert "docker run --memory" in finding.fix


def test_a_container_with_memory_enough() -> None:
    assert found(512 * MIB) == []
