import pytest

from ddpcheck.variables.agreement import Clash, clash, compared
from ddpcheck.variables.environ import relevant
from ddpcheck.variables.leftovers import TABLE, switches_on
from ddpcheck.variables.registry import VARIABLES
from ddpcheck.variables.renamed import RENAMINGS, fate


def test_secrets_are_hidden_and_the_rest_is_left_out() -> None:
    told = relevant(
        {
            "NCCL_API_KEY": "abc",
            "TORCH_AUTH_TOKEN": "abc",
            "MASTER_PASSWORD": "abc",
            "NCCL_NET_PLUGIN": "https://ann:abc@host/x",
            "NCCL_IB_PKEY": "0",
            "WANDB_API_KEY": "abc",
            "EDITOR": "vi",
        }
    )
    assert "abc" not in str(told)
    assert "ann" not in str(told)
    assert told["NCCL_IB_PKEY"] == "0"
    assert "WANDB_API_KEY" not in told
    assert "EDITOR" not in told


@pytest.mark.parametrize(
    "name",
    [
        *("RANK", "LOCAL_RANK", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "TORCHELASTIC_ERROR_FILE"),
        *("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_HOSTID", "TORCH_FR_BUFFER_SIZE", "CUDA_HOME"),
        *("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "DDPCHECK_LAUNCHED", "HIP_VISIBLE_DEVICES"),
        *("TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH", "NCCL_TOPO_DUMP_FILE"),
    ],
)
def test_what_differs_by_nature_is_not_compared(name: str) -> None:
    assert compared({name: "1"}, "node0") == {}


def test_the_hosts_own_name_is_no_difference() -> None:
    one = compared({"PYTHONPATH": "/scratch/node0/env"}, "node0")
    assert one == compared({"PYTHONPATH": "/scratch/node1/env"}, "node1")


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("NCCL_PROTO", ["LL", "Simple"], Clash.SURE),
        ("NCCL_PROTO", ["Simple", None], Clash.SURE),
        ("NCCL_PROTO", ["^LL128", None], Clash.LIKELY),
        ("NCCL_PROTO", ["Simple", "simple"], Clash.HARMLESS),
        ("NCCL_PROTO", ["allreduce:LL", None], Clash.LIKELY),
        ("NCCL_ALGO", ["Ring", "Tree"], Clash.SURE),
        ("NCCL_ALGO", ["Ring", None], Clash.LIKELY),
        ("NCCL_BUFFSIZE", ["1048576", None], Clash.SURE),
        ("NCCL_BUFFSIZE", ["4194304", None], Clash.HARMLESS),
        ("NCCL_RUNTIME_CONNECT", ["0", None], Clash.SURE),
        ("NCCL_P2P_DISABLE", ["1", None], Clash.LIKELY),
        ("NCCL_IB_DISABLE", ["0", None], Clash.HARMLESS),
        ("NCCL_SOCKET_IFNAME", ["eth0", "ib0"], Clash.HARMLESS),
        ("NCCL_IB_HCA", ["mlx5_0", None], Clash.HARMLESS),
        ("TORCH_DISTRIBUTED_DEBUG", ["DETAIL", None], Clash.SURE),
        ("TORCH_DISTRIBUTED_DEBUG", ["INFO", "OFF"], Clash.HARMLESS),
        ("LD_LIBRARY_PATH", ["/opt", None], Clash.LIKELY),
        ("PATH", ["/bin", None], Clash.LIKELY),
        ("PATH", ["/bin", "/usr/bin"], Clash.HARMLESS),
        ("OMP_NUM_THREADS", ["1", "8"], Clash.HARMLESS),
    ],
)
def test_clashes(name: str, values: list[str | None], kind: Clash) -> None:
    assert clash(name, values, on_gpu=True) is kind


def test_nccl_does_no_harm_without_gpus() -> None:
    assert clash("NCCL_PROTO", ["LL", "Simple"], on_gpu=False) is Clash.HARMLESS


@pytest.mark.parametrize("line", TABLE.strip().splitlines())
def test_switches_are_known_names_whose_values_switch_them_on(line: str) -> None:
    name, values, *_ = (part.strip() for part in line.split("|"))
    assert name in VARIABLES
    for value in values.split():
        environ = {"NCCL_DEBUG": "INFO", name: value.upper()}
        assert name in [switch.name for switch in switches_on(environ)]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"NCCL_P2P_DISABLE": "0", "CUDA_LAUNCH_BLOCKING": "0", "TORCH_DISTRIBUTED_DEBUG": "OFF"},
        {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_SUBSYS": "ALL"},
        {"OMP_NUM_THREADS": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"},
        {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "CUDA_CACHE_DISABLE": "1"},
        {"NCCL_DEBUG": "VERSION", "NCCL_DEBUG_SUBSYS": "^COLL"},
    ],
)
def test_usual_environments_have_no_switch_on(environ: dict[str, str]) -> None:
    assert switches_on(environ) == []


@pytest.mark.parametrize(
    ("name", "versions", "is_ignored"),
    [
        ("NCCL_IB_GDR_LEVEL", {"nccl": "2.28.9"}, True),
        ("NCCL_CHECKS_DISABLE", {"nccl": "2.28.9"}, True),
        ("NCCL_TREE_THRESHOLD", {"nccl": "2.20.5"}, True),
        ("NCCL_MIN_CTAS", {"nccl": "2.14.3"}, True),
        ("PYTORCH_ALLOC_CONF", {"torch": "2.8.0"}, True),
        ("NCCL_BLOCKING_WAIT", {"torch": "2.13.0"}, False),
        ("NCCL_MAX_NCHANNELS", {"nccl": "2.28.9"}, False),
        ("PYTORCH_CUDA_ALLOC_CONF", {"torch": "2.13.0+cu130"}, False),
    ],
)
def test_fates(name: str, versions: dict[str, str], is_ignored: bool) -> None:
    became = fate(name, versions)
    assert became is not None
    assert became.is_ignored is is_ignored


@pytest.mark.parametrize(
    ("name", "versions"),
    [
        ("NCCL_DEBUG", {"nccl": "2.28.9"}),
        ("NCCL_MIN_CTAS", {"nccl": "2.28.9"}),
        ("PYTORCH_CUDA_ALLOC_CONF", {"torch": "2.8.0"}),
        ("PYTORCH_ALLOC_CONF", {"torch": "2.11.0"}),
        ("NCCL_IB_GDR_LEVEL", {"torch": "2.13.0"}),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", {"torch": "2.6.0"}),
        ("NOBODYS", {"torch": "2.13.0", "nccl": "2.28.9"}),
    ],
)
def test_what_is_read_has_no_fate(name: str, versions: dict[str, str]) -> None:
    assert fate(name, versions) is None


def test_nothing_documented_for_torch_is_too_new_for_the_oldest_torch_but_one() -> None:
    names = [name for name in VARIABLES if fate(name, {"torch": "2.4.0"})]
    assert names == ["PYTORCH_ALLOC_CONF"]
    assert RENAMINGS
