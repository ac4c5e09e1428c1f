import platform
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from contexts import context_with

from ddpcheck.check import Context
from ddpcheck.checks.environment import version_mismatch
from ddpcheck.checks.environment.version_mismatch import probe

OPEN_MODULE = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@)\n"
    "GCC version:  gcc version 15.3.0 (GCC)\n"
)
OLD_MODULE = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Tue Feb 20 18:25:57 UTC 2024\n"
    "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"
)


def context(device: str) -> Context:
    return context_with(device=device)


def test_on_a_cpu_nothing_of_the_gpu_is_read() -> None:
    facts = probe(context("cpu"))
    assert set(facts.versions) == {
        "python",
        "python_micro",
        "torch",
        "torch_build",
        "cuda",
        "machine",
    }
    assert facts.versions["python_micro"] == platform.python_version()
    assert torch.__version__.startswith(facts.versions["torch"])
    assert facts.nccl_library == ""


@pytest.mark.parametrize(
    ("text", "driver"),
    [(OPEN_MODULE, "580.159.04"), (OLD_MODULE, "535.161.08"), ("", None), ("garbage", None)],
)
def test_on_a_gpu_driver_and_nccl_are_read(
    text: str, driver: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version").write_text(text)
    (tmp_path / "maps").write_text("7f-7f r-xp 00 fe:00 285  /env/nvidia/nccl/lib/libnccl.so.2\n")
    monkeypatch.setattr(version_mismatch, "DRIVER_VERSION", tmp_path / "version")
    monkeypatch.setattr(version_mismatch, "MAPPED_LIBRARIES", tmp_path / "maps")
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    fakes = {
        "torch.cuda.nccl": SimpleNamespace(version=lambda: (2, 28, 9)),
        "torch.backends.cudnn": SimpleNamespace(version=lambda: 91900),
    }
    monkeypatch.setattr(version_mismatch, "import_module", fakes.__getitem__)
    facts = probe(context("cuda:0"))
    assert facts.versions.get("driver") == driver
    assert (facts.versions["nccl"], facts.versions["cudnn"]) == ("2.28.9", "91900")
    assert facts.nccl_library == "/env/nvidia/nccl/lib/libnccl.so.2"


def test_missing_files_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_mismatch, "DRIVER_VERSION", tmp_path / "none")
    monkeypatch.setattr(version_mismatch, "MAPPED_LIBRARIES", tmp_path / "none")
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    facts = probe(context("cuda:0"))
    assert "driver" not in facts.versions
    assert (facts.versions["nccl"], facts.nccl_library) == ("none", "")
