from datetime import timedelta

import pytest
from torch._C._distributed_c10d import HashStore, ProcessGroupGloo, set_debug_level_from_env

from ddpcheck.variables.values import fault, number_read

NEW = {"torch": "2.13.0", "nccl": "2.28.9"}
OLD = {"torch": "2.4.0", "nccl": "2.20.5"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("NCCL_DEBUG", value) for value in ("INFO", "info", "WARN", "VERSION", "TRACE", "0", "")],
        *[("NCCL_IB_DISABLE", value) for value in ("0", "1", " 1", "0x1")],
        *[("NCCL_IB_GID_INDEX", value) for value in ("-1", "3")],
        ("NCCL_IB_TC", "010"),
        ("NCCL_BUFFSIZE", "8388608"),
        *[("NCCL_P2P_LEVEL", value) for value in ("NVL", "SYS", "3")],
        ("NCCL_ALGO", "Ring,tree"),
        ("NCCL_ALGO", "ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:^ring"),
        ("NCCL_PROTO", "^LL128"),
        ("NCCL_PROTO", "simple"),
        ("NCCL_SOCKET_IFNAME", "^docker0,lo"),
        ("NCCL_CTA_POLICY", "EFFICIENCY|ZERO"),
        *[("TORCH_NCCL_BLOCKING_WAIT", value) for value in ("1", "true", "No", "F")],
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"),
        ("TORCH_DISTRIBUTED_DEBUG", "detail"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:128"),
        ("PYTORCH_ALLOC_CONF", "roundup_power2_divisions:[256:1,512:2,>:4]"),
        *[("OMP_NUM_THREADS", value) for value in ("1", "8", "4,2")],
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
        ("NCCL_DEBUG_FILE", "/tmp/nccl.%h.%p"),
        ("SOMETHING_ELSE", "true"),
    ],
)
def test_good_values(name: str, value: str) -> None:
    assert fault(name, value, NEW) is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("NCCL_DEBUG", "YES", "VERSION, WARN, INFO"),
        ("NCCL_IB_DISABLE", "true", "makes it 0"),
        ("NCCL_BUFFSIZE", "4M", "makes it 4"),
        ("NCCL_IB_TIMEOUT", "40", "0 to 31"),
        ("NCCL_IB_TC", "09", "octal"),
        ("NCCL_P2P_LEVEL", "sys", "mean SYS"),
        ("NCCL_SOCKET_FAMILY", "ipv4", "AF_INET"),
        ("NCCL_IB_HCA", "'mlx5_0'", "quotes"),
        ("NCCL_DEBUG_FILE", "~/nccl.log", "~"),
        ("TORCH_CPP_LOG_LEVEL", "DEBUG", "WARNING"),
        ("OMP_NUM_THREADS", "auto", "threads"),
        ("OMP_NUM_THREADS", "0", "threads"),
        ("CUDA_LAUNCH_BLOCKING", "yes", "number"),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "64", "1 to 32"),
    ],
)
def test_values_that_are_passed_over(name: str, value: str, words: str) -> None:
    found = fault(name, value, NEW)
    assert found is not None
    assert words in found.told
    assert not found.is_fatal


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_ALGO", "NVLS_TREE"),
        ("NCCL_ALGO", "CollNet"),
        ("NCCL_PROTO", "LL256"),
        ("TORCH_NCCL_BLOCKING_WAIT", "on"),
        ("TORCH_NCCL_BLOCKING_WAIT", '"1"'),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "true"),
        ("TORCH_DISTRIBUTED_DEBUG", "YES"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments=True"),
        ("NCCL_SOCKET_IFNAME", '"eth0"'),
        ("GLOO_SOCKET_IFNAME", "'eth0'"),
        ("CUDA_DEVICE_ORDER", "BUS"),
    ],
)
def test_values_that_end_the_job(name: str, value: str) -> None:
    found = fault(name, value, NEW)
    assert found is not None
    assert found.is_fatal


def test_old_nccl_passes_over_words_that_new_nccl_refuses() -> None:
    found = fault("NCCL_ALGO", "NVLS_TREE", OLD)
    assert found is not None
    assert not found.is_fatal
    assert fault("NCCL_ALGO", "CollNet", {"nccl": "2.12.12"}) is None


def alone() -> ProcessGroupGloo:
    return ProcessGroupGloo(HashStore(), 0, 1, timedelta(seconds=5))


def test_torch_and_gloo_refuse_what_is_called_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "YES")
    with pytest.raises(ValueError, match="OFF, INFO, or DETAIL"):
        set_debug_level_from_env()
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", '"lo"')
    with pytest.raises(RuntimeError, match="Unable to find address"):
        alone()


def test_torch_takes_what_is_called_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "off")
    set_debug_level_from_env()
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert alone().size() == 1


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *(("1", 1), (" 1", 1), ("0x1F", 31), ("-1", -1), ("+2", 2), ("010", 8), ("08", 0)),
        *(("1abc", 1), ("true", 0), ("", 0), ("4M", 4), ("'1'", 0), ("0", 0), ("-0x10", -16)),
    ],
)
def test_numbers_as_nccl_reads_them(value: str, number: int) -> None:
    assert number_read(value) == number
