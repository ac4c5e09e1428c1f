import os

import pytest
from contexts import context_with

from ddpcheck.checks.environment.variables_differ import Facts, judge, probe, summarize
from ddpcheck.finding import Severity

COMMON = {"NCCL_SOCKET_IFNAME": "eth0", "PATH": "/bin", "LD_LIBRARY_PATH": "/cuda:/opt"}


def job(
    odd: dict[str, str | None], hosts: int = 2, per_host: int = 8, on_gpu: bool = True
) -> dict[int, Facts]:
    """Return the ranks of a job whose last host has other values; None is not set."""
    merged = {name: value for name, value in (COMMON | odd).items() if value is not None}
    return {
        rank: Facts(f"node{host}", on_gpu, merged if host == hosts - 1 else COMMON)
        for host in range(hosts)
        for rank in range(host * per_host, (host + 1) * per_host)
    }


@pytest.mark.parametrize("facts", [job({}), job({}, hosts=1, per_host=1), job({}, 125, 8)])
def test_equal_environments_are_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("odd", "severity"),
    [
        ({"NCCL_PROTO": "LL"}, Severity.ERROR),
        ({"NCCL_BUFFSIZE": "1048576"}, Severity.ERROR),
        ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, Severity.ERROR),
        ({"NCCL_P2P_DISABLE": "1"}, Severity.WARNING),
        ({"NCCL_CROSS_NIC": "1"}, Severity.WARNING),
        ({"PYTHONPATH": "/src"}, Severity.WARNING),
        ({"LD_LIBRARY_PATH": None}, Severity.WARNING),
        ({"LD_LIBRARY_PATH": "/cuda:/old"}, Severity.WARNING),
        ({"PATH": None}, Severity.WARNING),
        ({"PATH": "/bin:/usr/bin"}, Severity.INFO),
        ({"NCCL_SOCKET_IFNAME": "ib0"}, Severity.INFO),
        ({"NCCL_SOCKET_IFNAME": None}, Severity.INFO),
        ({"OMP_NUM_THREADS": "4"}, Severity.INFO),
    ],
)
def test_the_hosts_that_stand_out_are_named(odd: dict[str, str | None], severity: Severity) -> None:
    (finding,) = judge(job(odd, hosts=3))
    assert finding.severity is severity
    assert finding.ranks == tuple(range(16, 24))
    (name,) = odd
    assert name in finding.message
    assert "16-23" in finding.message
    assert "node2" in finding.fix


def test_without_gpus_nccl_does_no_harm() -> None:
    (finding,) = judge(job({"NCCL_PROTO": "LL"}, on_gpu=False))
    assert finding.severity is Severity.INFO


def test_an_empty_environment_is_told_in_few_words() -> None:
    facts = job(dict.fromkeys(COMMON), hosts=125)
    found = judge(facts)
    assert max(len(finding.message) for finding in found) < 800
    assert "not set" in found[0].message


def test_of_two_values_neither_is_the_odd_one() -> None:
    (finding,) = judge(job({"LD_LIBRARY_PATH": "/src"}))
    assert len(finding.ranks) == 16
    assert "ssh" not in finding.fix


def test_of_two_hosts_the_one_that_lacks_the_variables_is_the_odd_one() -> None:
    finding = judge(job(dict.fromkeys(COMMON)))[0]
    assert finding.ranks == tuple(range(8, 16))
    assert "look first at node1" in finding.fix
    assert "ssh and pdsh forward no variables" in finding.fix
    (finding,) = judge(job({"PYTHONPATH": "/src"}))
    assert finding.ranks == tuple(range(8))
    assert "node0" in finding.fix


def test_of_long_lists_only_the_difference_is_told() -> None:
    common = ":".join(f"/common/{n}" for n in range(50))
    facts = {
        rank: Facts(f"node{rank}", False, {"LD_LIBRARY_PATH": f"{common}:/own/{rank % 2}"})
        for rank in range(3)
    }
    (finding,) = judge(facts)
    assert "/own/1" in finding.message
    assert "/common" not in finding.message


def test_probe_leaves_out_what_differs_by_nature() -> None:
    one, other = (
        probe(
            context_with(
                rank=rank,
                host=f"node{rank}",
                environ=dict(os.environ)
                | {"RANK": str(rank), "CUDA_VISIBLE_DEVICES": str(rank), "SLURM_PROCID": str(rank)}
                | {"TORCHELASTIC_ERROR_FILE": f"/tmp/{rank}", "PYTHONPATH": f"/local/node{rank}"},
            )
        )
        for rank in (0, 1)
    )
    assert one.values == other.values
    assert "PATH" in one.values
    assert judge({0: one, 1: other}) == []


def test_summary() -> None:
    assert summarize(job({})) == "3 variables compared, 0 differ"
    assert summarize(job({"NCCL_PROTO": "LL"})) == "4 variables compared, 1 differ"
