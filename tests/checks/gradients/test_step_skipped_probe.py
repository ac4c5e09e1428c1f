from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.gradients.step_skipped import Facts, Observer, Passes
from ddpcheck.watch import replicas


def both(_ddp: object) -> tuple[int, int]:
    return 0, 1


def test_the_observer_counts_what_ddp_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "group_of", both)
    observer = Observer(context_with(watches=True))
    with pytest.raises(Skip, match="DistributedDataParallel"):
        observer.facts()
    live: Any = SimpleNamespace(ddp=SimpleNamespace(require_backward_grad_sync=False))
    observer.on_built(live)
    for syncs in (False, True):
        live.ddp.require_backward_grad_sync = syncs
        observer.on_inputs(0, None)
        observer.on_loss(0, None)
    observer.on_step(0)
    assert observer.facts() == Facts((Passes(2, 2, 1),), (0, 1))
