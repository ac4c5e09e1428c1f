import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from contexts import context_with
from findings import judged
from hosts import made_hosts
from probes_on_hosts import probed

from ddpcheck.check import Skip
from ddpcheck.checks.environment import small_shared_memory
from ddpcheck.checks.environment.small_shared_memory import Facts, probe
from ddpcheck.finding import Finding, Severity

CHECK = "environment/small-shared-memory"
MIB = 2**20
GPU = "2.28.9"


def test_the_loader_of_a_users_target_is_not_guessed_at() -> None:
    assert not probe(context_with()).loader_is_known
    assert probe(context_with(script="train.py")).loader_is_known


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
    (finding,) = judged(CHECK, dict.fromkeys(range(2), facts))
    assert (finding.id, finding.severity, finding.ranks) == (CHECK, Severity.WARNING, (0, 1))
    assert "8 MiB of 8 MiB of /dev/shm are free for node0 (rank 0-1)" in finding.message
    assert "docker run --shm-size=16g" in finding.fix


def on_gpus(folder: Path, *sizes: str) -> list[Finding]:
    """Return what is found of two ranks with a GPU on each of two hosts of one name."""
    with made_hosts(2, names=("node", "node")) as hosts:
        for host, options in zip(hosts, sizes, strict=True):
            host.mount_shared_memory(options)
        facts = probed(CHECK, hosts, folder, ranks_per_host=2, device="cuda:0", backend="nccl")
    return judged(CHECK, facts)


def test_a_host_where_nccl_cannot_start(tmp_path: Path) -> None:
    (finding,) = on_gpus(tmp_path, "size=1g", "size=8m")
    assert (finding.id, finding.severity) == (CHECK, Severity.ERROR)
    assert finding.ranks == (2, 3)
    assert "8 MiB of 8 MiB of /dev/shm are free for node (rank 2-3)" in finding.message
    assert "for NCCL" in finding.message
    assert "docker run --shm-size=16g" in finding.fix
    assert "NCCL_SHM_DISABLE" not in finding.fix


def test_hosts_where_nccl_can_start(tmp_path: Path) -> None:
    # Each does for its two ranks, and neither would for all four.
    assert on_gpus(tmp_path, "size=300m", "size=300m") == []
