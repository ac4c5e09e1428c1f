import pytest
import torch
from answers import always
from contexts import context_with

from ddpcheck.check import Profile, Skip
from ddpcheck.checks.devices.bad_memory import MIB, probe
from ddpcheck.measures.wrong_values import WrongMemory
from ddpcheck.target import memory_patterns


def test_a_cpu_run_is_skipped() -> None:
    with pytest.raises(Skip, match="no GPU"):
        probe(context_with())


@pytest.mark.parametrize(
    ("profile", "free_mib", "tried_mib"),
    [
        (Profile.QUICK, 80_000, 256),
        (Profile.STANDARD, 80_000, 1024),
        (Profile.FULL, 80_000, 64_000),
        (Profile.STANDARD, 100, 80),
    ],
)
def test_how_much_is_tried(
    monkeypatch: pytest.MonkeyPatch, profile: Profile, free_mib: int, tried_mib: int
) -> None:
    def all_well(device: str, size_bytes: int, rounds: int) -> list[WrongMemory]:
        assert (device, rounds > 0) == ("cuda:0", True)
        sizes.append(size_bytes)
        return []

    sizes: list[int] = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", always((free_mib * MIB, 0)))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(memory_patterns, "wrong_memory", all_well)
    facts = probe(context_with(device="cuda:0", profile=profile))
    assert [facts.tried_bytes] == sizes == [tried_mib * MIB]


def test_a_full_gpu_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", always((1000, 0)))
    with pytest.raises(Skip, match="free"):
        probe(context_with(device="cuda:0"))
