import os

import pytest

from ddpcheck.measures.versions import version
from ddpcheck.variables import nccl, others, pytorch
from ddpcheck.variables.registry import (
    NAMES_ALONE,
    PREFIXES,
    VARIABLES,
    Variable,
    is_known,
    near_miss,
    unknown_names,
)
from ddpcheck.variables.renamed import RENAMINGS
from ddpcheck.variables.values import CHECKS, LISTS

KINDS_OF_ANY_TEXT = {"text", "interfaces", "port"}


def test_every_name_is_listed_once() -> None:
    listed = [
        line.split("|")[0].strip()
        for table in (nccl.DOCUMENTED, pytorch.DOCUMENTED, others.DOCUMENTED)
        for line in table.strip().splitlines()
    ]
    assert len(listed) == len(set(listed))
    assert not NAMES_ALONE & set(VARIABLES)


@pytest.mark.parametrize("variable", VARIABLES.values(), ids=lambda variable: variable.name)
def test_entries_are_well_formed(variable: Variable) -> None:
    assert variable.name == variable.name.strip().upper()
    assert variable.kind.split()[0] in CHECKS.keys() | LISTS.keys() | KINDS_OF_ANY_TEXT
    assert all(version(text) for text in (variable.since, variable.until) if text)


def test_old_and_new_names_are_known() -> None:
    assert [name for name in RENAMINGS if not is_known(name)] == []
    assert [each.new for each in RENAMINGS.values() if each.new not in VARIABLES] == []


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("NCCL_SOCKET_IFNAM", "NCCL_SOCKET_IFNAME"),
        ("NCCL_IB_DISBLE", "NCCL_IB_DISABLE"),
        ("NCCL_P2P_DISABLED", "NCCL_P2P_DISABLE"),
        ("NCCL_DEBGU", "NCCL_DEBUG"),
        ("NCLL_DEBUG", "NCCL_DEBUG"),
        ("MASTER_ADRESS", "MASTER_ADDR"),
        ("MASTER_ADDRESS", "MASTER_ADDR"),
        ("WORLD_SIZ", "WORLD_SIZE"),
        ("GLOO_SOCKET_IFNAMES", "GLOO_SOCKET_IFNAME"),
        ("CUDA_VISIBLE_DEVICE", "CUDA_VISIBLE_DEVICES"),
        ("OMP_NUM_THREAD", "OMP_NUM_THREADS"),
        ("TOCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"),
        ("TORCH_DISTRIBUTED_DEBG", "TORCH_DISTRIBUTED_DEBUG"),
    ],
)
def test_slips_are_seen(wrong: str, right: str) -> None:
    assert unknown_names([wrong]) == [wrong]
    assert near_miss(wrong) == right


@pytest.mark.parametrize(
    "name",
    [
        *("NCCL_TIMEOUT", "NCCL_DETERMINISTIC", "MASTER_HOST", "MASTER_IP", "LOCAL_HOST"),
        *("CUDA_DEVICE", "CUDA_BIN", "CUDA_VER", "TORCH_DEVICE", "OMP_THREADS", "GROUP_NAME"),
    ],
)
def test_names_of_ones_own_are_no_slips(name: str) -> None:
    assert near_miss(name) == ""


def test_every_known_name_is_its_own() -> None:
    assert unknown_names([*VARIABLES, *NAMES_ALONE, *RENAMINGS]) == []


@pytest.mark.parametrize(
    "name",
    [
        *("NCCL_OFI_TUNER_TYPE", "NCCL_FASTRAK_IFNAME", "NCCL_GPUDIRECTTCPX_CTRL_DEV"),
        *("NCCL_SHIMNET_SHIM_LAYERS", "NCCL_TUNER_CONFIG_PATH", "NCCL_DYNAMIC_CHUNK_SIZE"),
        *("NCCL_IBEXT_DISABLE", "NCCL_CTRAN_ENABLE", "NCCL_VERSION", "NCCL_HOME", "CUDA_VERSION"),
        *("TORCHINDUCTOR_CACHE_DIR", "TORCHDYNAMO_VERBOSE", "TORCH_COMPILE_DEBUG", "FI_PROVIDER"),
        *("OFI_NCCL_USE_IPV6_TCP", "RCCL_MSCCL_ENABLE", "DDPCHECK_LAUNCHED", "SLURM_PROCID"),
        *("HCCL_SOCKET_IFNAME", "CCL_LOG_LEVEL", "OMPI_COMM_WORLD_RANK"),
        *("NCCL_LL128_BUFFSIZE", "TORCHELASTIC_RUN_ID", "TORCH_CUDA_ARCH_LIST", "HOSTNAME"),
        *("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", "PYTORCH_VERSION"),
    ],
)
def test_what_others_read_is_no_concern(name: str) -> None:
    assert unknown_names([name]) == []


def test_this_environment_has_no_slips() -> None:
    assert [near_miss(name) for name in unknown_names(os.environ) if near_miss(name)] == []
    assert "NCCL_" in PREFIXES
