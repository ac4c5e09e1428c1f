import pytest
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.environment import wrong_nccl_library
from ddpcheck.checks.environment.wrong_nccl_library import Facts, probe

SYSTEM = "/usr/lib/x86_64-linux-gnu/libnccl.so.2"


@pytest.fixture
def torch_with_nccl(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(wrong_nccl_library, "nccl_built_for", lambda: "2.28.9")
    monkeypatch.setattr(wrong_nccl_library, "loaded", always([SYSTEM]))
    monkeypatch.setattr(wrong_nccl_library, "nccl_version", {SYSTEM: "2.15.5"}.__getitem__)
    monkeypatch.setattr(wrong_nccl_library, "nccl_in_use", lambda: "2.15.5")
    monkeypatch.setattr(wrong_nccl_library, "packaged_nccl", dict)
    return monkeypatch


@pytest.mark.parametrize(
    ("environ", "chosen_by"),
    [
        ({}, []),
        ({"LD_LIBRARY_PATH": "/opt:/usr/lib/x86_64-linux-gnu/"}, ["LD_LIBRARY_PATH"]),
        ({"LD_LIBRARY_PATH": "/usr/lib"}, []),
        ({"LD_PRELOAD": f"/a.so {SYSTEM}", "LD_LIBRARY_PATH": ""}, ["LD_PRELOAD"]),
    ],
)
@pytest.mark.usefixtures("torch_with_nccl")
def test_probe(environ: dict[str, str], chosen_by: list[str]) -> None:
    facts = probe(context_with(device="cuda:0", environ={"NCCL_VERSION": "2.15.5-1", **environ}))
    assert facts == Facts(
        "node0", "2.15.5", {SYSTEM: "2.15.5"}, "2.28.9", {}, "2.15.5-1", chosen_by
    )


def test_without_a_gpu_or_a_library_it_is_skipped(torch_with_nccl: pytest.MonkeyPatch) -> None:
    with pytest.raises(Skip, match="no GPU"):
        probe(context_with())
    torch_with_nccl.setattr(wrong_nccl_library, "loaded", always([]))
    with pytest.raises(Skip, match="NCCL"):
        probe(context_with(device="cuda:0"))
