import sys
from pathlib import Path

import pytest
from hosts import made_hosts

from ddpcheck.machine.places import namespace, nccl_host, shared_place

SHOW = (
    "import os, socket\n"
    "from ddpcheck.machine.places import nccl_host, shared_place\n"
    "host = socket.gethostname()\n"
    "print(shared_place(host), nccl_host(host, os.environ))\n"
)


def with_boot_id(root: Path, boot_id: str) -> Path:
    (root / "proc/sys/kernel/random").mkdir(parents=True, exist_ok=True)
    (root / "proc/sys/kernel/random/boot_id").write_text(f"{boot_id}\n")
    return root


def test_a_place_is_told_by_the_kernel_and_not_by_the_name() -> None:
    assert shared_place("node0") == shared_place("node1")
    assert len({shared_place("node0"), shared_place("node0", 1), shared_place("node0", 2)}) == 3


def test_two_kernels_are_two_places(tmp_path: Path) -> None:
    roots = [with_boot_id(tmp_path / boot_id, boot_id) for boot_id in ("1f", "2f")]
    assert len({shared_place("node0", root=root) for root in roots}) == 2
    assert len({nccl_host("node0", {}, root) for root in roots}) == 2


def test_where_the_kernel_cannot_be_told_the_name_stands_for_it(tmp_path: Path) -> None:
    told = [shared_place(name, root=tmp_path) for name in ("node0", "node0", "node1")]
    assert told[0] == told[1] != told[2]


def test_a_namespace_has_a_number(tmp_path: Path) -> None:
    assert namespace("net") == Path("/proc/self/ns/net").stat().st_ino
    assert namespace("net", tmp_path) == 0


def test_nccl_goes_by_name_and_kernel_unless_it_is_told() -> None:
    assert nccl_host("node0", {}) != nccl_host("node1", {})
    named = {"NCCL_HOSTID": "rack7"}
    assert nccl_host("node0", named) == nccl_host("node1", named) != nccl_host("node0", {})


@pytest.mark.parametrize(
    ("names", "own_memory", "hosts_count"),
    [
        (("node", "node"), False, 1),
        (("node", "node"), True, 2),
        (("node0", "node1"), False, 2),
    ],
)
def test_real_hosts_as_nccl_sees_them(
    names: tuple[str, str], hosts_count: int, *, own_memory: bool
) -> None:
    with made_hosts(2, names=names) as hosts:
        if own_memory:
            hosts[1].mount_shared_memory("size=8m")
        told = [h.run([sys.executable, "-c", SHOW], check=True).stdout.split() for h in hosts]
    assert told[0][0] == told[1][0]
    assert len({each[1] for each in told}) == hosts_count
