import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from contexts import context_with
from findings import judged
from rdma_trees import add_device

from ddpcheck.check import Skip
from ddpcheck.checks.environment import low_locked_memory
from ddpcheck.checks.environment.low_locked_memory import Facts, probe
from ddpcheck.finding import Finding, Severity
from ddpcheck.machine.infiniband import Port

CHECK = "environment/low-locked-memory"
UP = Port("mlx5_0", 1, "ACTIVE", "LinkUp", "InfiniBand", usable=True)
DOWN = Port("mlx5_0", 1, "DOWN", "Polling", "InfiniBand", usable=True)


@pytest.mark.parametrize(
    ("device", "environ", "port", "reason"),
    [
        ("cpu", {}, UP, "no GPU"),
        ("cuda:0", {}, DOWN, "no InfiniBand"),
        ("cuda:0", {"NCCL_IB_DISABLE": "1"}, UP, "told"),
        ("cuda:0", {"NCCL_NET": "Socket"}, UP, "told"),
    ],
)
def test_where_nccl_uses_no_card_it_is_skipped(
    device: str,
    environ: dict[str, str],
    port: Port,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(low_locked_memory, "all_ports", lambda: [port])
    with pytest.raises(Skip, match=reason):
        probe(context_with(device=device, environ=environ))


# The kernel's tree of devices is made up; limit and capabilities are this process's own.
SOURCE = """
import sys
from functools import partial
from pathlib import Path
import msgspec
from contexts import context_with
from ddpcheck.checks.environment import low_locked_memory as check
from ddpcheck.machine.infiniband import all_ports
check.all_ports = partial(all_ports, root=Path(sys.argv[1]))
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
