import platform
from types import SimpleNamespace

import pytest
import torch
from answers import always
from contexts import context_with

from ddpcheck.checks.environment import version_mismatch
from ddpcheck.checks.environment.version_mismatch import probe

LIBRARY = "/env/nvidia/nccl/lib/libnccl.so.2"


def test_on_a_cpu_nothing_of_the_gpu_is_read() -> None:
    facts = probe(context_with())
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


def test_on_a_gpu_driver_and_loaded_libraries_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_mismatch, "kernel_driver", lambda: "580.159.04")
    monkeypatch.setattr(version_mismatch, "loaded", {"libnccl": [LIBRARY]}.__getitem__)
    monkeypatch.setattr(version_mismatch, "nccl_of_torch", lambda: "2.28.9")
    cudnn = SimpleNamespace(version=lambda: 91900)
    monkeypatch.setattr(version_mismatch, "import_module", always(cudnn))
    facts = probe(context_with(device="cuda:0"))
    own = facts.versions
    assert (own["driver"], own["nccl"], own["cudnn"]) == ("580.159.04", "2.28.9", "91900")
    assert facts.nccl_library == LIBRARY


def test_what_is_not_there_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_mismatch, "kernel_driver", str)
    monkeypatch.setattr(version_mismatch, "loaded", always([]))
    monkeypatch.setattr(version_mismatch, "nccl_of_torch", str)
    facts = probe(context_with(device="cuda:0"))
    assert "driver" not in facts.versions
    assert (facts.versions["nccl"], facts.nccl_library) == ("none", "")
