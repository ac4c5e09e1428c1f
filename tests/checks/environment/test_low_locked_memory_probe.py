import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from answers import always
from contexts import context_with
from findings import judged
from rdma_trees import LINK_LOCAL, V1, add_device

from ddpcheck.check import Skip
from ddpcheck.checks.environment import low_locked_memory
from ddpcheck.checks.environment.low_locked_memory import Facts, probe
from ddpcheck.finding import Finding, Severity
from ddpcheck.network import rdma

CHECK = "environment/low-locked-memory"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the tree of a machine with one port that is up, and one that is not."""
    monkeypatch.setattr(low_locked_memory, "ROOT", tmp_path)
    monkeypatch.setattr(rdma, "can_be_loaded", always(True))
    add_device(tmp_path, "mlx5_0")
    add_device(tmp_path, "mlx5_1", state="DOWN", link="Polling")
    (tmp_path / "etc").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("device", "environ", "reason"),
    [
        ("cpu", {}, "no GPU"),
        ("cuda:0", {"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE is 1"),
        ("cuda:0", {"NCCL_NET": "Socket"}, "NCCL_NET is Socket"),
        ("cuda:0", {"NCCL_IB_HCA": "mlx5_1"}, "no InfiniBand"),
        ("cuda:0", {"NCCL_IB_HCA": "^mlx5_0"}, "no InfiniBand"),
    ],
)
def test_where_nccl_uses_no_card_it_is_skipped(
    root: Path, device: str, environ: dict[str, str], reason: str
) -> None:
    assert root.exists()
    with pytest.raises(Skip, match=reason):
        probe(context_with(device=device, environ=environ))


@pytest.mark.parametrize("line", ["NCCL_IB_DISABLE=1", "NCCL_NET=Socket", "NCCL_IB_HCA=mlx4"])
def test_what_nccls_file_says_counts(root: Path, line: str) -> None:
    (root / "etc/nccl.conf").write_text(line)
    with pytest.raises(Skip):
        probe(context_with(device="cuda:0"))
    overridden = {"NCCL_IB_DISABLE": "0", "NCCL_NET": "IB", "NCCL_IB_HCA": "mlx5_0"}
    assert probe(context_with(device="cuda:0", environ=overridden)).ports == ["mlx5_0:1"]


def test_without_libibverbs_nothing_is_locked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert probe(context_with(device="cuda:0")).ports == ["mlx5_0:1"]
    monkeypatch.setattr(rdma, "can_be_loaded", always(False))
    with pytest.raises(Skip, match="no InfiniBand"):
        probe(context_with(device="cuda:0"))
    add_device(root, "efa0", layer="Unspecified", gids={0: (LINK_LOCAL, V1)})
    assert probe(context_with(device="cuda:0")).ports == ["efa0:1"], "a plugin has its own library"


# The kernel's tree of devices is made up; limit and capabilities are this process's own.
SOURCE = """
import sys
from pathlib import Path
import msgspec
from contexts import context_with
from ddpcheck.checks.environment import low_locked_memory as check
from ddpcheck.network import rdma
check.ROOT = Path(sys.argv[1])
rdma.can_be_loaded = lambda names: True
facts = check.probe(context_with(device="cuda:0", host="node1"))
sys.stdout.buffer.write(msgspec.json.encode(facts))
"""
UNPRIVILEGED = ["setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock"]
ELSEWHERE = Facts("node0", "another host", None, ["mlx5_0:1"])


def found_under(ulimit: str, tree: Path, prefix: list[str]) -> list[Finding]:
    """Return what is found when rank 1 is started so, on a host with a card."""
    add_device(tree, "mlx5_0")
    shell = ["sh", "-c", f'ulimit -l {ulimit} && exec "$@"', "sh"]
    if subprocess.run([*shell, "true"], check=False, capture_output=True).returncode:
        pytest.skip(f"the limit cannot be {ulimit} here")
    done = subprocess.run(
        [*shell, *prefix, sys.executable, "-c", SOURCE, str(tree)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        check=True,
        capture_output=True,
    )
    return judged(CHECK, {0: ELSEWHERE, 1: msgspec.json.decode(done.stdout, type=Facts)})


def test_a_rank_that_was_started_under_a_low_limit(tmp_path: Path) -> None:
    prefix = UNPRIVILEGED if os.getuid() == 0 else []
    (finding,) = found_under("64", tmp_path, prefix)
    assert (finding.id, finding.severity, finding.ranks) == (CHECK, Severity.ERROR, (1,))
    assert "rank 1 on node1 may lock 64 KiB" in finding.message
    assert "mlx5_0:1" in finding.message
    assert "docker run --ulimit memlock=-1" in finding.fix


@pytest.mark.skipif(os.getuid() != 0, reason="raising the limit needs root")
@pytest.mark.parametrize(
    ("ulimit", "prefix"),
    [
        pytest.param("unlimited", UNPRIVILEGED, id="no limit"),
        pytest.param("64", [], id="a capability lifts it"),
    ],
)
def test_a_rank_that_may_lock_what_it_wants(ulimit: str, prefix: list[str], tmp_path: Path) -> None:
    assert found_under(ulimit, tmp_path, prefix) == []


@pytest.mark.skipif(os.getuid() != 0, reason="needs root outside and none inside")
def test_root_of_a_user_namespace_is_bound_all_the_same(tmp_path: Path) -> None:
    rootless = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*rootless, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    (finding,) = found_under("64", tmp_path, rootless)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
