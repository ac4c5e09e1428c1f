"""Collectives are noted while they run, and no longer."""

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.engine.blackbox import BlackBox
from ddpcheck.watch.calls import recorded_calls


def refuse(*_arguments: object, **_named: object) -> None:
    raise RuntimeError("Cannot use ReduceOp.BAND with Gloo")


def test_a_call_that_raises_is_not_waited_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks try what a backend may refuse: the rank has left that collective."""
    monkeypatch.setattr(dist, "all_reduce", refuse)
    box = BlackBox(None)
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        with recorded_calls(box), pytest.raises(RuntimeError, match="BAND"):
            dist.all_reduce(torch.ones(3))
    finally:
        dist.destroy_process_group()
    (call,) = box.flight.calls
    assert (call.what, call.done) == ("all_reduce SUM float32[3]", True)
