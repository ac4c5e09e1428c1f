from typing import Any

import msgspec
import pytest

from ddpcheck.checks.environment.known_bad_versions import KNOWN, Facts, judge, summarize
from ddpcheck.finding import Severity

GPU = Facts("node0", "nccl", "x86_64", "2.11.0", "2.28.9", {})
CPU = Facts("node0", "gloo", "x86_64", "2.13.0", "", {})


def with_changes(base: Facts, **changed: Any) -> Facts:
    return msgspec.structs.replace(base, **changed)


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(GPU, id="GPU"),
        pytest.param(CPU, id="CPU"),
        pytest.param(with_changes(GPU, nccl="2.29.2"), id="2.29.2 on x86"),
        pytest.param(with_changes(GPU, nccl="2.29.3", processor="aarch64"), id="2.29.3 on ARM"),
        pytest.param(with_changes(GPU, torch="2.7.0", nccl="2.21.5"), id="2.7.0 with an old NCCL"),
        pytest.param(with_changes(GPU, torch="2.7.1", nccl="2.26.2"), id="2.7.1"),
        pytest.param(
            with_changes(
                GPU,
                torch="2.7.0",
                nccl="2.26.2",
                settings={"TORCH_NCCL_USE_COMM_NONBLOCKING": "0"},
            ),
            id="2.7.0 with the workaround",
        ),
        pytest.param(
            with_changes(CPU, settings={"TORCH_DISTRIBUTED_DEBUG": "INFO"}), id="INFO on gloo"
        ),
        pytest.param(
            with_changes(GPU, torch="2.13.0", settings={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
            id="DETAIL on NCCL",
        ),
    ],
)
def test_silent(own: Facts) -> None:
    assert judge({0: own, 1: own}) == []
    assert summarize({0: own}) == f"none of {len(KNOWN)} known combinations"


@pytest.mark.parametrize(
    ("own", "fix"),
    [
        (with_changes(GPU, nccl="2.25.1"), "2.26.2"),
        (with_changes(GPU, torch="2.7.0", nccl="2.26.2"), "TORCH_NCCL_USE_COMM_NONBLOCKING=0"),
        (with_changes(GPU, nccl="2.29.2", processor="aarch64"), "2.29.3"),
        (
            with_changes(CPU, settings={"TORCH_DISTRIBUTED_DEBUG": "detail"}),
            "unset TORCH_DISTRIBUTED_DEBUG",
        ),
    ],
)
def test_each_entry_is_a_warning_for_its_ranks(own: Facts, fix: str) -> None:
    (finding,) = judge({0: GPU, 1: own, 2: with_changes(own, host="node1")})
    assert finding.severity is Severity.WARNING
    assert finding.ranks == (1, 2)
    assert fix in finding.fix
    assert "node0, node1" in finding.message


def test_every_entry_has_a_source() -> None:
    assert all(known.source.startswith(("https://github.com/", "reproduced")) for known in KNOWN)


def test_many_hosts_are_one_finding() -> None:
    facts = {rank: with_changes(GPU, host=f"n{rank // 8}", nccl="2.25.1") for rank in range(1000)}
    (finding,) = judge(facts)
    assert "and 117 more" in finding.message
