import os

import pytest
from answers import always
from contexts import context_with

from ddpcheck.checks.environment import invalid_value
from ddpcheck.checks.environment.invalid_value import judge, probe


def test_probe_reads_what_nccl_would(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.11.0", "nccl": "2.28.9"}
    monkeypatch.setattr(invalid_value, "reading_versions", always(versions))
    environ = {
        "NCCL_DEBUG": "YES",
        "NCCL_ALGO": "NVLS_TREE",
        "NCCL_IB_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": '"eth0"',
        "HOME": "~",
    }
    found = probe(context_with(environ=environ, device="cuda:0"))
    assert {wrong.name: wrong.is_fatal for wrong in found.wrong} == {
        "NCCL_DEBUG": False,
        "NCCL_ALGO": True,
        "NCCL_SOCKET_IFNAME": True,
    }


def test_this_environment_is_silent() -> None:
    assert judge({0: probe(context_with(environ=dict(os.environ)))}) == []
