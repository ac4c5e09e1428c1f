"""From the files of two hosts' RDMA devices to the finding: read, probed and judged."""

from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from contexts import context_with
from rdma_trees import LINK_LOCAL, USUAL, V1, add_device

from ddpcheck.catalogue import check_named
from ddpcheck.check import Facts
from ddpcheck.checks.network import missing_hca, wrong_gid_index
from ddpcheck.finding import Finding, Severity
from ddpcheck.network.rdma import rdma

OLD, NEW = "2.20.5", "2.28.9"
ROCE = "Ethernet"


@pytest.fixture
def hosts(tmp_path: Path) -> list[Path]:
    """Return the roots of two hosts, which have booted each for itself."""
    roots = [tmp_path / "node0", tmp_path / "node1"]
    for number, root in enumerate(roots):
        boot = root / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_text(f"{number}\n")
    return roots


def found(
    module: ModuleType,
    roots: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str] | None = None,
) -> list[Finding]:
    """Return the findings for a rank on each host, as a run has them."""
    facts: dict[int, Facts] = {}
    for rank, root in enumerate(roots):
        monkeypatch.setattr(module, "rdma", partial(rdma, root=root))
        facts[rank] = module.probe(
            context_with(
                rank=rank, host=root.name, backend="nccl", device="cuda:0", environ=environ or {}
            )
        )
    family, name = module.__name__.split(".")[-2:]
    return check_named(f"{family}/{name.replace('_', '-')}").judge(facts)


@pytest.mark.parametrize(("nccl", "count"), [(OLD, 1), (NEW, 0)])
def test_a_gid_that_leads_nowhere_is_named(
    nccl: str, count: int, hosts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for root in hosts:
        add_device(root, "mlx5_0", layer=ROCE, gids=USUAL)
    monkeypatch.setattr(wrong_gid_index, "nccl_of_torch", lambda: nccl)
    findings = found(wrong_gid_index, hosts, monkeypatch)
    assert len(findings) == count  # from 2.21 on NCCL chooses a good one itself
    for finding in findings:
        assert (finding.id, finding.severity) == ("network/wrong-gid-index", Severity.WARNING)
        assert finding.ranks == (0, 1)
        assert f"mlx5_0:1 on node1: GID 0 is {LINK_LOCAL} ({V1})" in finding.message
        assert finding.fix == "export NCCL_IB_GID_INDEX=3 on all ranks"


@pytest.mark.parametrize(("hca", "count"), [("mlx5_1", 1), ("mlx5_0", 0), ("", 0)])
def test_a_device_that_is_not_there_is_named(
    hca: str, count: int, hosts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for root in hosts:
        add_device(root, "mlx5_0")
    findings = found(missing_hca, hosts, monkeypatch, {"NCCL_IB_HCA": hca} if hca else {})
    assert len(findings) == count
    for finding in findings:
        assert (finding.id, finding.severity) == ("network/missing-hca", Severity.WARNING)
        assert finding.ranks == (0, 1)
        assert "NCCL_IB_HCA=mlx5_1 on node0: no device is called mlx5_1" in finding.message
        assert "mlx5_0 on node1" in finding.fix


def test_a_container_that_was_not_shown_its_device_is_named(
    hosts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_device(hosts[0], "mlx5_0")
    add_device(hosts[1], "mlx5_0", shown=False)
    (finding,) = found(missing_hca, hosts, monkeypatch)
    assert (finding.id, finding.ranks) == ("network/missing-hca", (1,))
    assert "/dev/infiniband lacks mlx5_0 on node1" in finding.message
    assert "--device=/dev/infiniband" in finding.fix
