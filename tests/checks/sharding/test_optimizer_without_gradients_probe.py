import pytest
import torch
from contexts import context_with
from torch import nn

from ddpcheck.check import Skip
from ddpcheck.checks.sharding.optimizer_without_gradients import Observer
from ddpcheck.watch.trained import Watched


def seen(trained: nn.Module, optimized: nn.Module) -> Observer:
    """Return an observer of three steps of an optimizer of one model, where another is trained."""
    observer = Observer(context_with())
    optimizer = torch.optim.SGD(optimized.parameters(), lr=0.1)
    observer.on_built(Watched(trained, trained, (), "cpu", optimizer))
    for step in range(3):
        loss = trained(torch.ones(2, 3)).sum()
        observer.on_loss(step, loss)
        loss.backward()
        observer.on_gradients(step)
    return observer


def test_gradients_of_its_own_parameters_count() -> None:
    net = nn.Linear(3, 1)
    assert seen(net, net).facts().steps_with_gradients == 3
    told = seen(nn.Linear(3, 1), nn.Linear(3, 1)).facts()
    assert (told.parameters, told.steps, told.steps_with_gradients) == (2, 3, 0)


def test_a_step_without_a_loss_does_not_count() -> None:
    observer = Observer(context_with())
    observer.on_gradients(0)
    with pytest.raises(Skip):
        observer.facts()
