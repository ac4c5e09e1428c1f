import os

import pytest
from contexts import context_with

from ddpcheck.checks.environment.unknown_variable import Facts, judge, probe, summarize
from ddpcheck.finding import Severity

TYPO = {"NCCL_SOCKET_IFNAM": "NCCL_SOCKET_IFNAME"}
STRANGE = {"NCCL_TIMEOUT": ""}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"NCCL_SOCKET_IFNAME": "eth0", "MASTER_ADDR": "node0", "WORLD_SIZE": "2"},
        {"TORCHELASTIC_RUN_ID": "1", "DDPCHECK_LAUNCHED": "1", "TORCH_FR_BUFFER_SIZE": "2000"},
        {"NCCL_OFI_TUNER_TYPE": "x", "NCCL_FASTRAK_IFNAME": "x", "MASTER_HOST": "node0"},
        {"CUDA_ARCHS": "90", "PYTORCH_EXTRA": "1", "LOCAL_HOST": "node0"},
        dict(os.environ),
    ],
)
def test_known_names_are_silent(environ: dict[str, str]) -> None:
    assert judge({0: probe(context_with(environ=environ))}) == []


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("NCCL_SOCKET_IFNAM", "NCCL_SOCKET_IFNAME"),
        ("NCCL_IB_DISBLE", "NCCL_IB_DISABLE"),
        ("MASTER_ADRESS", "MASTER_ADDR"),
    ],
)
def test_a_slip_is_a_warning_that_names_the_right_one(wrong: str, right: str) -> None:
    (finding,) = judge({3: probe(context_with(environ={wrong: "1"}))})
    assert finding.severity is Severity.WARNING
    assert wrong in finding.message
    assert right in finding.fix
    assert finding.ranks == (3,)


def test_one_warning_for_a_thousand_ranks() -> None:
    (finding,) = judge({rank: Facts("node0", TYPO) for rank in range(1000)})
    assert "0-999" in finding.message
    assert len(finding.message) < 300


def test_only_the_guilty_ranks_are_named() -> None:
    (finding,) = judge({0: Facts("node0", {}), 1: Facts("node1", TYPO)})
    assert finding.ranks == (1,)


@pytest.mark.parametrize(
    "facts", [Facts("node0", STRANGE), Facts("node0", TYPO, ("NCCL_SOCKET_IFNAME",))]
)
def test_a_name_that_may_be_meant_is_a_note(facts: Facts) -> None:
    (finding,) = judge({0: facts})
    assert finding.severity is Severity.INFO


def test_the_right_name_besides_is_seen() -> None:
    environ = {"MASTER_ADDRESS": "node0", "MASTER_ADDR": "node0"}
    assert probe(context_with(environ=environ)).also_set == ("MASTER_ADDR",)


def test_summary() -> None:
    assert summarize({0: Facts("node0", {})}) == "every name is known"
    assert summarize({0: Facts("node0", TYPO)}) == "unknown names: 1"
