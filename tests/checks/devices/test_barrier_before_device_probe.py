from pathlib import Path

import pytest
import torch
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices.barrier_before_device import probe

EARLY = "import torch.distributed as dist\ndist.init_process_group('nccl')\ndist.barrier()\n"


def test_probe_tells_what_torch_would_guess(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    (tmp_path / "train.py").write_text(EARLY)
    script = str(tmp_path / "train.py")
    facts = probe(context_with(rank=5, local_rank=2, device="cuda:2", script=script))
    assert (facts.local_rank, facts.guess, [place.line for place in facts.places]) == (2, 1, [3])
    assert probe(context_with(script=script)).guess is None


def test_a_built_in_target_is_skipped() -> None:
    with pytest.raises(Skip, match="built in"):
        probe(context_with())
