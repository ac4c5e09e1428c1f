"""Optimizers that take each other's place, real ones."""

from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with
from torch import nn
from torch.optim import SGD, AdamW

from ddpcheck.check import Skip
from ddpcheck.checks.sharding.optimizer_of_more import Facts, Observer
from ddpcheck.finding import Location

HERE = Location("/lora.py", 1, "main")


def observing() -> Observer:
    return Observer(context_with(watches=True))


def told(observer: Observer, optimizer: Any) -> Facts:
    """Return what is told where this optimizer is the one that steps."""
    live: Any = SimpleNamespace(optimizer=optimizer)
    observer.on_built(live)
    return observer.facts()


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))


def test_one_of_all_parameters_replaces_one_of_the_head() -> None:
    model, observer = net(), observing()
    observer.on_optimizing(AdamW(model[1].parameters()), HERE)  # and nobody keeps it
    new = AdamW(model.parameters())
    observer.on_optimizing(new, None)
    assert told(observer, new) == Facts(4, 2, None, HERE)


def test_one_that_is_kept_may_be_for_another_time() -> None:
    model, observer = net(), observing()
    head, whole = SGD(model[1].parameters()), SGD(model.parameters())
    observer.on_optimizing(head, HERE)
    observer.on_optimizing(whole, None)
    assert told(observer, whole) == Facts(4)
    assert head.param_groups


def test_what_is_frozen_is_not_trained() -> None:
    model, observer = net(), observing()
    model[0].requires_grad_(requires_grad=False)
    observer.on_optimizing(SGD(model[1].parameters()), HERE)
    new = SGD(model.parameters())
    observer.on_optimizing(new, None)
    assert told(observer, new) == Facts(2)


def test_one_of_the_same_parameters_or_of_other_ones_replaces_none() -> None:
    model, observer = net(), observing()
    observer.on_optimizing(SGD(model.parameters()), HERE)
    observer.on_optimizing(SGD(net()[0].parameters()), HERE)
    new = SGD(model.parameters())
    observer.on_optimizing(new, None)
    assert told(observer, new) == Facts(4)


def test_one_of_a_model_that_was_sharded_since() -> None:
    model, observer = net(), observing()
    observer.on_optimizing(SGD(model[1].parameters()), HERE)
    observer.on_sharded(model, None, None)
    sharded = net()
    new = SGD(sharded.parameters())
    observer.on_optimizing(new, None)
    assert told(observer, new) == Facts(4, 2, None, HERE)


def test_nothing_that_steps_is_a_skip() -> None:
    with pytest.raises(Skip, match="no optimizer"):
        observing().facts()
    with pytest.raises(Skip, match="ddpcheck watch"):
        Observer(context_with()).facts()
