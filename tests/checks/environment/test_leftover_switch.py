import msgspec
import pytest

from ddpcheck.checks.environment.leftover_switch import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.variables.leftovers import switches_on


def rank(environ: dict[str, str], host: str = "node0", **changed: object) -> Facts:
    """Return a rank on a GPU of a host that has everything."""
    own = Facts(host, host, True, True, True, tuple(switches_on(environ)))
    return msgspec.structs.replace(own, **changed)


def severities(facts: dict[int, Facts]) -> list[Severity]:
    return [finding.severity for finding in judge(facts)]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OMP_NUM_THREADS": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "NCCL_DEBUG": "WARN"},
        {"NCCL_P2P_DISABLE": "0", "NCCL_IB_DISABLE": "0", "NCCL_NET_GDR_LEVEL": "SYS"},
        {"NCCL_DEBUG": "VERSION", "CUDA_DEVICE_MAX_CONNECTIONS": "1", "NCCL_ALGO": "Ring"},
        {"TORCH_DISTRIBUTED_DEBUG": "OFF", "CUDA_LAUNCH_BLOCKING": "0"},
    ],
)
def test_usual_environments_are_silent(environ: dict[str, str]) -> None:
    assert judge({0: rank(environ), 1: rank(environ, "node1")}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_P2P_DISABLE", "1"),
        ("NCCL_SHM_DISABLE", "1"),
        ("NCCL_IB_DISABLE", "1"),
        ("NCCL_NET", "Socket"),
        ("NCCL_DEBUG", "TRACE"),
        ("CUDA_LAUNCH_BLOCKING", "1"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
        ("TORCH_NCCL_BLOCKING_WAIT", "true"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
    ],
)
def test_a_costly_switch_is_a_warning(name: str, value: str) -> None:
    (finding,) = judge({0: rank({}), 1: rank({name: value}, "node1")})
    assert finding.severity is Severity.WARNING
    assert finding.ranks == (1,)
    assert f"{name}={value}" in finding.message
    assert name in finding.fix


@pytest.mark.parametrize(
    ("environ", "changed"),
    [
        ({"NCCL_P2P_DISABLE": "1"}, {"on_gpu": False}),
        ({"NCCL_P2P_DISABLE": "1"}, {"peer_access": False}),
        ({"NCCL_IB_DISABLE": "1"}, {"infiniband": False}),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, {"on_gpu": False}),
        ({"NCCL_DEBUG": "INFO"}, {}),
        ({"NCCL_NVLS_ENABLE": "0"}, {}),
        ({"TORCH_COMPILE_DISABLE": "1"}, {}),
    ],
)
def test_what_costs_little_here_is_a_note(
    environ: dict[str, str], changed: dict[str, object]
) -> None:
    hosts = {0: rank(environ, "node0", **changed), 1: rank(environ, "node1", **changed)}
    assert severities(hosts) == [Severity.INFO]


def test_a_switch_of_the_network_costs_nothing_on_one_host() -> None:
    assert severities({0: rank({"NCCL_IB_DISABLE": "1"})}) == [Severity.INFO]


def test_a_switch_of_the_network_costs_between_hosts_of_one_name() -> None:
    own = rank({"NCCL_IB_DISABLE": "1"})
    other = msgspec.structs.replace(own, nccl_host="another")
    assert severities({0: own, 1: other}) == [Severity.WARNING]


def test_detail_is_a_warning_without_gpus_too() -> None:
    detail = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    assert severities({0: rank(detail, "node0", on_gpu=False)}) == [Severity.WARNING]


def test_a_thousand_ranks_are_two_findings() -> None:
    environ = {"NCCL_P2P_DISABLE": "1", "CUDA_LAUNCH_BLOCKING": "1", "NCCL_DEBUG": "INFO"}
    found = judge({r: rank(environ, f"node{r // 8}") for r in range(1000)})
    assert [finding.severity for finding in found] == [Severity.WARNING, Severity.INFO]
    assert "0-999" in found[0].message


def test_summary() -> None:
    assert summarize({0: rank({})}) == "no switch is on"
    assert "NCCL_DEBUG" in summarize({0: rank({"NCCL_DEBUG": "INFO"})})


def test_the_fix_names_the_file_that_a_switch_is_from() -> None:
    def host(name: str, file: str) -> Facts:
        own = rank({"NCCL_IB_DISABLE": "1", "CUDA_LAUNCH_BLOCKING": "1"}, name)
        ib, launch = sorted(own.switches, key=lambda switch: switch.name, reverse=True)
        return msgspec.structs.replace(
            own, switches=(msgspec.structs.replace(ib, file=file), launch)
        )

    (finding,) = judge({0: host("node0", "/etc/nccl.conf"), 1: host("node1", "/etc/nccl.conf")})
    assert finding.fix == "unset CUDA_LAUNCH_BLOCKING; remove NCCL_IB_DISABLE from /etc/nccl.conf"
    assert "NCCL_IB_DISABLE=1 in /etc/nccl.conf on rank 0-1" in finding.message
