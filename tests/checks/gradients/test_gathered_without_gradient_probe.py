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
from ddpcheck.checks.gradients.gathered_without_gradient import Observer
from ddpcheck.measures.gathers import Gather
from ddpcheck.watch.stream import EventStream

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
    observer, net = Observer(context_with(watches=True, world_size=2)), Net()
    live: Any = SimpleNamespace(ddp=object(), module=net)
    stream = EventStream({"x": observer})
    stream.emit("built", live)

    def gather(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.grad_fn is not None:
            stream.emit("gathered", tensor, None)
        return cut(tensor)

    for step in range(2):
        stream.emit("inputs", step, None)
        value = loss(net, torch.randn(5, 6), gather)
        stream.emit("loss", step, value)
        value.backward()
        stream.emit("gradients", step)
    assert stream.raised == {}
    return observer.facts().gathers


def constants(loss: Callable[[Net, torch.Tensor, Gathering], torch.Tensor]) -> list[int]:
    """Return for each gather of a step in how many of two steps its copy is in the loss."""
    return [each.constant for each in watched(loss)]


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


@torch.no_grad()
def as_keys(gather: Gathering, features: torch.Tensor) -> torch.Tensor:
    return gather(features)


def within_no_grad(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    logits, z = net(x)
    z = as_keys(gather, z)
    return logits.logsumexp(1).mean() + (z @ z.t()).exp().mean()


def keys_of_another_view(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    _, first = net(x)
    _, second = net(x + 0.1)
    return (first @ as_keys(gather, second).t()).exp().mean()


TEACHER = Net()


def keys_of_a_teacher(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    _, first = net(x)
    _, second = TEACHER(x)
    return (first @ as_keys(gather, second).t()).exp().mean()


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


def local_anchors_in_bfloat16(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return local_anchors(net, x, gather)


def local_anchors_by_distance(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    _, z = net(x)
    return -torch.cdist(z, gather(z)).exp().mean()


def neighbours_for_the_log(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    logits, z = net(x)
    with torch.no_grad():
        everyone = cut(z)
        torch.cdist(z, everyone).mean()
    gather(z)
    return logits.logsumexp(1).mean() + z.mean()


def queue_of_older_ones(net: Net, x: torch.Tensor, gather: Gathering) -> torch.Tensor:
    _, z = net(x)
    queue = torch.cat([gather(z), torch.randn(40, 4)])
    return (z @ queue.t()).exp().mean()


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
    [beside_a_classifier, one_view_gathered, in_bfloat16, within_no_grad],
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
    "loss",
    [
        with_its_own,
        local_anchors,
        confidence_for_the_log,
        loss_for_the_log,
        teacher,
        keys_of_another_view,
        keys_of_a_teacher,
    ],
)
def test_features_that_are_used_besides(loss: Any) -> None:
    assert not any(verdict(loss))


@pytest.mark.parametrize(
    "loss", [local_anchors, local_anchors_in_bfloat16, local_anchors_by_distance]
)
def test_a_copy_that_the_loss_uses_beside_the_features(loss: Any) -> None:
    assert constants(loss) == [2]


@pytest.mark.parametrize(
    "loss",
    [
        with_its_own,
        confidence_for_the_log,
        loss_for_the_log,
        teacher,
        keys_of_another_view,
        keys_of_a_teacher,
        neighbours_for_the_log,
        queue_of_older_ones,
    ],
)
def test_a_copy_that_no_loss_uses_or_that_is_meant(loss: Any) -> None:
    assert not any(constants(loss))


def test_outside_of_the_forward_pass_nothing_is_followed() -> None:
    observer, net = Observer(context_with(watches=True, world_size=2)), Net()
    live: Any = SimpleNamespace(ddp=object(), module=net)
    stream = EventStream({"x": observer})
    stream.emit("built", live)
    logits, z = net(torch.randn(5, 6))
    stream.emit("gathered", z, None)  # before any forward pass that is told of
    stream.emit("inputs", 0, None)
    stream.emit("loss", 0, logits.mean())
    stream.emit("gathered", z, None)  # for the log, after the loss
    stream.emit("inputs", 0, None)
    net.eval()
    stream.emit("gathered", z, None)  # an evaluation
    net.train()
    stream.emit("inputs", 0, None)
    stream.emit("gathered", z, None)  # a look at features that no backward pass comes after
    stream.emit("gradients", 0)
    assert observer.facts().gathers == ()


def test_without_ddp_it_is_a_skip() -> None:
    with pytest.raises(Skip, match="DistributedDataParallel"):
        Observer(context_with(watches=True)).facts()
    with pytest.raises(Skip, match="ddpcheck watch"):
        Observer(context_with()).facts()
