import pytest
import torch
from contexts import context_with

from ddpcheck.checks.environment import known_bad_versions
from ddpcheck.checks.environment.known_bad_versions import judge, probe


def test_probe_takes_the_settings_that_matter_only() -> None:
    environ = {"TORCH_DISTRIBUTED_DEBUG": "INFO", "WANDB_API_KEY": "secret"}
    facts = probe(context_with(environ=environ))
    assert facts.settings == {"TORCH_DISTRIBUTED_DEBUG": "INFO"}
    assert torch.__version__.startswith(facts.torch)
    assert (facts.backend, facts.nccl) == ("gloo", "")
    assert judge({0: facts}) == []


@pytest.mark.parametrize(("hip", "told"), [(None, "2.25.1"), ("7.0", "")])
def test_nccl_counts_where_it_is_not_rccl(
    hip: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(known_bad_versions, "nccl_of_torch", lambda: "2.25.1")
    assert probe(context_with(device="cuda:0")).nccl == told
