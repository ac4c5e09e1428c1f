import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from answers import always

from ddpcheck.machine import driver
from ddpcheck.machine.driver import (
    device_count,
    gpus_in_driver,
    hides_gpus,
    kernel_driver,
    start_error,
    supported_cuda,
    why_no_gpu,
)

OPEN_MODULE = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@)\n"
    "GCC version:  gcc version 15.3.0 (GCC)\n"
)
OLD_MODULE = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Tue Feb 20 18:25:57 UTC 2024\n"
    "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"
)


@pytest.mark.parametrize(
    ("text", "version"),
    [(OPEN_MODULE, "580.159.04"), (OLD_MODULE, "535.161.08"), ("", ""), ("garbage", "")],
)
def test_the_kernels_driver(text: str, version: str, tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(text)
    assert kernel_driver(tmp_path) == version


def test_devices_are_counted(tmp_path: Path) -> None:
    assert device_count(tmp_path) == 0
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / "dev" / name).touch()
    assert device_count(tmp_path) == 3


@pytest.mark.parametrize(
    ("environ", "hidden"),
    [
        ({}, False),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, False),
        ({"CUDA_VISIBLE_DEVICES": ""}, True),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, True),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, True),
    ],
)
def test_hidden_gpus(environ: dict[str, str], hidden: bool) -> None:
    assert hides_gpus(environ) == hidden


def libcuda(version: int, error: int) -> SimpleNamespace:
    def ask(number: ctypes.Array[ctypes.c_int]) -> int:
        ctypes.cast(number, ctypes.POINTER(ctypes.c_int))[0] = version
        return 0

    return SimpleNamespace(cuDriverGetVersion=ask, cuInit=always(error))


@pytest.mark.parametrize(("number", "version"), [(13000, "13.0"), (12060, "12.6"), (0, "")])
def test_libcuda_tells_what_it_supports(
    number: int, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", always(libcuda(number, 803)))
    assert (supported_cuda(), start_error()) == (version, 803)


def test_without_libcuda(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert (supported_cuda(), start_error()) == ("", driver.NO_LIBRARY)


def test_without_a_driver_it_shows_no_gpus() -> None:
    assert gpus_in_driver("libcuda-that-is-not-there.so") is None


def test_another_library_shows_no_gpus() -> None:
    assert gpus_in_driver("libc.so.6") is None


class Machine(NamedTuple):
    """What a process finds: GPUs' device files, the libcuda that it loads, and torch's CUDA."""

    devices: int = 8
    supported: int = 13000
    error: int = 0
    built_for: str = "13.0"


@pytest.mark.parametrize(
    ("mask", "machine", "told"),
    [
        pytest.param(None, Machine(built_for=""), "torch is built without CUDA", id="a CPU build"),
        pytest.param("", Machine(), "CUDA_VISIBLE_DEVICES is ''", id="hidden"),
        pytest.param(None, Machine(0, error=100), "no /dev/nvidia0", id="no device"),
        pytest.param(None, Machine(error=802), "not ready (802)", id="no fabric"),
        pytest.param(None, Machine(error=999), "not start (999)", id="whatever"),
        pytest.param("8", Machine(error=100), "is '8', which names no", id="beyond"),
        pytest.param(None, Machine(supported=12080), "CUDA 12.8, torch", id="old driver"),
        pytest.param(None, Machine(), "torch counts no device", id="nobody knows"),
    ],
)
def test_why_a_process_sees_no_gpu(
    mask: str | None,
    machine: Machine,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "dev").mkdir()
    for number in range(machine.devices):
        (tmp_path / "dev" / f"nvidia{number}").touch()
    monkeypatch.setattr(ctypes, "CDLL", always(libcuda(machine.supported, machine.error)))
    environ = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    assert told in why_no_gpu(environ, machine.built_for, tmp_path)
