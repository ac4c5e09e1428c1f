import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from answers import always
from contexts import context_with
from rdma_trees import USUAL, add_device

from ddpcheck.checks.environment import leftover_switch
from ddpcheck.checks.environment.leftover_switch import judge, probe
from ddpcheck.finding import Severity


def test_this_machine_is_silent() -> None:
    found = judge({0: probe(context_with(environ=dict(os.environ)))})
    assert [finding for finding in found if finding.severity is not Severity.INFO] == []


def test_switches_in_nccls_file_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("NCCL_SHM_DISABLE=1\nNCCL_P2P_DISABLE=1\n")
    monkeypatch.setattr(leftover_switch, "ROOT", tmp_path)
    found = probe(context_with(environ={"NCCL_P2P_DISABLE": "0"}))
    told = [(switch.name, switch.file) for switch in found.switches]
    assert told == [("NCCL_SHM_DISABLE", "/etc/nccl.conf")]


@pytest.mark.parametrize(("count", "reach", "has"), [(2, True, True), (2, False, False), (1, 0, 1)])
def test_peers_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, count: int, reach: bool, has: bool
) -> None:
    fake = SimpleNamespace(device_count=lambda: count, can_device_access_peer=always(reach))
    monkeypatch.setattr(torch, "cuda", fake)
    found = probe(context_with(environ={"NCCL_P2P_DISABLE": "1"}, device="cuda:0"))
    assert found.peer_access is bool(has)


@pytest.mark.parametrize(
    ("layers", "severity"),
    [
        (["InfiniBand"], Severity.WARNING),
        (["Ethernet", "Ethernet"], Severity.WARNING),
        (["Ethernet"], Severity.INFO),
        ([], Severity.INFO),
    ],
)
def test_to_leave_a_network_that_is_made_for_rdma_costs_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: list[str], severity: Severity
) -> None:
    for number, layer in enumerate(layers):
        add_device(tmp_path, f"mlx5_{number}", layer=layer, gids=USUAL)
    monkeypatch.setattr(leftover_switch, "ROOT", tmp_path)
    environ = {"NCCL_IB_DISABLE": "1"}
    hosts = [context_with(host=host, device="cuda:0", environ=environ) for host in ("a", "b")]
    (finding,) = judge(dict(enumerate(map(probe, hosts))))
    assert finding.severity is severity
    assert finding.fix == "unset NCCL_IB_DISABLE"
