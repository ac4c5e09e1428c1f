import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.environment import small_shared_memory
from ddpcheck.checks.environment.small_shared_memory import Facts, judge, probe
from ddpcheck.finding import Severity

MIB = 2**20
GPU = "2.28.9"


def test_a_system_without_shared_memory_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_shared_memory, "shared_memory", lambda: None)
    with pytest.raises(Skip, match="/dev/shm"):
        probe(context_with())


@pytest.mark.parametrize(
    ("device", "loaded", "told"), [("cpu", GPU, ""), ("cuda:0", GPU, GPU), ("cuda:0", "", "2")]
)
def test_nccl_counts_on_a_gpu_only(
    device: str, loaded: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_shared_memory, "nccl_of_torch", lambda: loaded)
    assert probe(context_with(device=device)).nccl == told


@pytest.mark.skipif(os.getuid() != 0, reason="mounting needs root")
def test_a_real_small_shared_memory() -> None:
    source = (
        "import sys, msgspec\n"
        "from contexts import context_with\n"
        "from ddpcheck.checks.environment.small_shared_memory import probe\n"
        "sys.stdout.buffer.write(msgspec.json.encode(probe(context_with())))\n"
    )
    mounted = 'mount -t tmpfs -o size=8m tmpfs /dev/shm && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mounted, "sh", sys.executable, "-c", source],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=True,
    )
    facts = msgspec.json.decode(done.stdout, type=Facts)
    assert facts.size_bytes == 8 * MIB
    (finding,) = judge({0: facts})
    assert finding.severity is Severity.WARNING
    assert "of 8 MiB" in finding.message
