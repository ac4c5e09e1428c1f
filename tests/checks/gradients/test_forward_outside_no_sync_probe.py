from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with
from torch import nn

from ddpcheck.check import Skip
from ddpcheck.checks.gradients.forward_outside_no_sync import Facts, Observer
from ddpcheck.watch import replicas


def both(_ddp: object) -> tuple[int, int]:
    return 0, 1


def seen(*passes: str) -> Facts:
    """Return what is seen of passes: forward and backward, in capitals where they synchronize."""
    observer, net = Observer(context_with(watches=True)), nn.Linear(7, 1)
    ddp = SimpleNamespace(require_backward_grad_sync=True)
    live: Any = SimpleNamespace(ddp=ddp, module=net)
    observer.on_built(live)
    for one in passes:
        ddp.require_backward_grad_sync = one.isupper()
        if one == "step":
            observer.on_step(0)
        elif one.lower() == "f":
            observer.on_inputs(0, None)
        else:
            observer.on_loss(0, None)
    return observer.facts()


@pytest.mark.parametrize(
    ("passes", "redundant"),
    [
        ("FbFbFB", 2),
        ("fbfbFB", 0),
        ("FBFBFB", 0),
        ("FFb", 1),
        ("Ffb", 1),
        ("Fbb", 1),
        ("fB", 0),
        ("b", 0),
    ],
)
def test_passes(monkeypatch: pytest.MonkeyPatch, passes: str, redundant: int) -> None:
    monkeypatch.setattr(replicas, "group_of", both)
    told = seen(*passes, "step")
    assert (told.redundant, told.steps, told.gradient_bytes) == (redundant, 1, 32)
    assert (told.location is not None) == bool(redundant)


def test_without_ddp_it_is_a_skip() -> None:
    with pytest.raises(Skip, match="DistributedDataParallel"):
        Observer(context_with(watches=True)).facts()
    with pytest.raises(Skip, match="ddpcheck watch"):
        Observer(context_with()).facts()
