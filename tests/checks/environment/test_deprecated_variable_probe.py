import os
from types import SimpleNamespace

import pytest
import torch
from contexts import context_with

from ddpcheck.checks.environment.deprecated_variable import Facts, judge, probe
from ddpcheck.machine import libraries


def test_without_a_gpu_nccl_and_its_memory_do_not_matter() -> None:
    environ = {
        "NCCL_IB_GDR_LEVEL": "1",
        "NCCL_BLOCKING_WAIT": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "a:1",
    }
    found = probe(context_with(environ=environ))
    assert found.dated == {}
    assert torch.__version__.startswith(found.versions["torch"])


def test_on_a_gpu_the_versions_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = {
        "torch": SimpleNamespace(
            __version__="2.11.0+cu130",
            version=SimpleNamespace(hip=None),
            distributed=SimpleNamespace(is_nccl_available=lambda: True),
        ),
        "torch.cuda.nccl": SimpleNamespace(version=lambda: (2, 28, 9)),
    }
    monkeypatch.setattr(libraries, "import_module", fakes.__getitem__)
    monkeypatch.setattr(libraries, "nccl_in_use", str)
    environ = {"NCCL_IB_GDR_LEVEL": "1", "NCCL_BLOCKING_WAIT": "1"}
    found = probe(context_with(environ=environ, device="cuda:0"))
    assert found.versions == {"torch": "2.11.0", "nccl": "2.28.9"}
    assert {name: each.is_ignored for name, each in found.dated.items()} == {
        "NCCL_BLOCKING_WAIT": False,
        "NCCL_IB_GDR_LEVEL": True,
    }


def test_on_rocm_nccls_versions_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rocm = SimpleNamespace(
        __version__="2.11.0+rocm7.0",
        version=SimpleNamespace(hip="7.0"),
        distributed=SimpleNamespace(is_nccl_available=lambda: True),
    )
    monkeypatch.setattr(libraries, "import_module", {"torch": rocm}.__getitem__)
    found = probe(context_with(environ={"NCCL_TREE_THRESHOLD": "1"}, device="cuda:0"))
    assert found == Facts("node0", {"torch": "2.11.0"}, {})


def test_this_environment_is_silent() -> None:
    assert judge({0: probe(context_with(environ=dict(os.environ)))}) == []
