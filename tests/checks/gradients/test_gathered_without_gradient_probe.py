"""What the observer sees of gathers in a training that looks like a user's."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from contexts import context_with
from torch import nn
from torch.nn.functional import normalize

from ddpcheck.check import Skip
from ddpcheck.checks.gradients.gathered_without_gradient import Gather, Observer

Gathering = Callable[[torch.Tensor], torch.Tensor]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.classify = nn.Linear(8, 3)
        self.project = nn.Linear(8, 4)

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both: tuple[torch.Tensor, torch.Tensor] = super().__call__(*inputs)
        return both

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.backbone(x)
        return self.classify(h), normalize(self.project(h), dim=1)


def cut(features: torch.Tensor) -> torch.Tensor:
    """Return what an all_gather would: these values, and others, without a history."""
    return torch.cat([features.detach(), torch.randn_like(features)])


def watched(loss: Callable[[Net, torch.Tensor, Gathering], torch.Tensor]) -> tuple[Gather, ...]:
    """Return what is seen of two steps with this loss, that gathers by what it is given."""
    observer, net = Observer(context_with(watches=True)), Net()
    live: Any = SimpleNamespace(ddp=object(), module=net)
    observer.on_built(live)

    def gather(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.grad_fn is not None and torch.is_grad_enabled():
            observer.on_gathered(tensor, None)
        return cut(tensor)

    for step in range(2):
        observer.on_inputs(step, None)
        value = loss(net, torch.randn(5, 6), gather)
        observer.on_loss(step, value)
        value.backward()
        observer.on_gradients(step)
    return observer.facts().gathers


def verdict(loss: Callable[[Net, torch.Tensor, Gathering], torch.Tensor]) -> list[bool]:
    """Return for each gather of a step whether it cuts the gradient in every step."""
    gathers = watched(loss)
    assert all(each.followed == 2 for each in gathers)
    return [each.cut == each.followed for each in gathers]


def beside_a_classifier(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    logits, z = net(x)
    z = gather(z)
    return logits.logsumexp(1).mean() + (z @ z.t()).exp().mean()


def one_view_gathered(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    _, first = net(x)
    _, second = net(x + 0.1)
    return (first @ gather(second).t()).exp().mean()


def in_bfloat16(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return one_view_gathered(net, x, gather)


def with_its_own(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    logits, z = net(x)
    others = gather(z)
    everyone = torch.cat([z, others[len(z) :]])
    return logits.mean() + (everyone @ everyone.t()).exp().mean()


def local_anchors(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    _, z = net(x)
    return (z @ gather(z).t()).exp().mean()


def confidence_for_the_log(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    logits, z = net(x)
    gather(logits.softmax(1))
    return logits.logsumexp(1).mean() + z.mean()


def loss_for_the_log(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    logits, z = net(x)
    loss: torch.Tensor = logits.logsumexp(1).mean() + z.mean()
    gather(loss.repeat(5))
    gather(loss[None] / 2)
    return loss


def teacher(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    with torch.no_grad():
        _, target = net(x)
        target = gather(target)
    _, z = net(x + 0.1)
    return (z @ target.t()).exp().mean()


@pytest.mark.parametrize(
    "loss",
    [beside_a_classifier, one_view_gathered, in_bfloat16],
)
def test_features_that_only_go_through_the_gather(loss: Any) -> None:
    assert verdict(loss) == [True]


def test_the_parameter_is_named() -> None:
    (gather,) = watched(beside_a_classifier)
    assert (gather.parameter, gather.shape) in {
        ("project.bias", (5, 4)),
        ("project.weight", (5, 4)),
    }


@pytest.mark.parametrize(
    "loss", [with_its_own, local_anchors, confidence_for_the_log, loss_for_the_log, teacher]
)
def test_features_that_are_used_besides(loss: Any) -> None:
    assert not any(verdict(loss))


def test_outside_of_the_forward_pass_nothing_is_followed() -> None:
    observer, net = Observer(context_with(watches=True)), Net()
    live: Any = SimpleNamespace(ddp=object(), module=net)
    observer.on_built(live)
    logits, z = net(torch.randn(5, 6))
    observer.on_gathered(z, None)  # before any forward pass that is told of
    observer.on_inputs(0, None)
    observer.on_loss(0, logits.mean())
    observer.on_gathered(z, None)  # for the log, after the loss
    observer.on_inputs(0, None)
    net.eval()
    observer.on_gathered(z, None)  # an evaluation
    observer.on_gradients(0)
    assert observer.facts().gathers == ()


def test_without_ddp_it_is_a_skip() -> None:
    with pytest.raises(Skip, match="DistributedDataParallel"):
        Observer(context_with(watches=True)).facts()
    with pytest.raises(Skip, match="ddpcheck watch"):
        Observer(context_with()).facts()
