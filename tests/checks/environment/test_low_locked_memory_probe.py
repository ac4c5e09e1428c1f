import subprocess
import sys
from pathlib import Path

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.environment import low_locked_memory
from ddpcheck.checks.environment.low_locked_memory import probe
from ddpcheck.machine.infiniband import Port

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


SOURCE = """
import resource, sys
sys.path.insert(0, sys.argv[1])
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
from contexts import context_with
from ddpcheck.checks.environment import low_locked_memory as check
from ddpcheck.machine.infiniband import Port
check.all_ports = lambda: [Port("mlx5_0", 1, "ACTIVE", "LinkUp", "InfiniBand", usable=True)]
check.has_capability = lambda bit: sys.argv[2] == "privileged"
print(check.probe(context_with(device="cuda:0")).soft_bytes)
"""


@pytest.mark.parametrize(("user", "told"), [("plain", "65536"), ("privileged", "None")])
def test_the_limit_is_that_of_the_rank_itself(user: str, told: str) -> None:
    tests = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", SOURCE, tests, user], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == told
