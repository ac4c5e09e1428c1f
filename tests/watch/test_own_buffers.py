"""Which buffers are looked at, and which of them a step changes little by little."""

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.watch.own_buffers import LossBuffers, buffers_beside, buffers_in


class Model(nn.Module):
    """Has an average, a queue, and buffers that tell nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("average", torch.ones(3, 4))
        self.register_buffer("queue", torch.ones(8, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("loss", torch.ones(()))
        self.register_buffer("cache", torch.ones(4), persistent=False)


Wrapped = Callable[..., DistributedDataParallel]


def made(*, broadcast_buffers: bool = True) -> DistributedDataParallel:
    return DistributedDataParallel(Model(), broadcast_buffers=broadcast_buffers)


@pytest.fixture
def wrapped() -> Iterator[Wrapped]:
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield made
    dist.destroy_process_group()


def test_what_is_handed_out_is_not_looked_at(wrapped: Wrapped) -> None:
    assert buffers_in(wrapped()).before == {}


def test_saved_numbers_of_no_norm_are(wrapped: Wrapped) -> None:
    assert buffers_in(wrapped(broadcast_buffers=False)).before.keys() == {
        "average",
        "queue",
        "loss",
    }


def test_an_average_changes_little_by_little_and_a_queue_at_once(wrapped: Wrapped) -> None:
    ddp = wrapped(broadcast_buffers=False)
    buffers = buffers_in(ddp)
    model = ddp.module
    for step in range(4):
        model.average[step % 2].mul_(0.9).add_(0.1 * torch.randn(4))
        model.queue[2 * step : 2 * step + 2] = 3.0 * torch.randn(2, 4)
        model.loss.mul_(0.9)
        buffers.note(step)
    assert buffers.gradual() == ("average",)
    assert buffers.sketch() != buffers.before


def test_of_too_few_steps_nothing_is_known(wrapped: Wrapped) -> None:
    buffers = buffers_in(wrapped(broadcast_buffers=False))
    buffers.note(0)
    assert buffers.gradual() == ()


class Centered(nn.Module):
    """A loss with a center that each call moves, from zeros."""

    center: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(1, 4))

    def forward(self, outputs: torch.Tensor) -> torch.Tensor:
        self.center = 0.9 * self.center + 0.1 * outputs.detach().mean(0)
        loss: torch.Tensor = (outputs - self.center).square().mean()
        return loss


def beside(loss: Centered) -> LossBuffers:
    (own,) = [
        each
        for each in buffers_beside(nn.Linear(1, 1))
        if each.before.keys() == {"Centered.center"}
    ]
    assert vars(loss)["_forward_hooks"]
    return own


def test_the_center_of_a_loss_settles_after_some_steps() -> None:
    loss = Centered()
    own = beside(loss)
    for step in range(10):
        loss(torch.randn(8, 4, requires_grad=True) + 1)
        own.note(step)
    own.close()
    assert own.gradual() == ("Centered.center",)
    assert own.called is not None
    assert own.called.file == __file__
    assert not vars(loss)["_forward_hooks"]


def test_what_has_no_history_is_no_loss() -> None:
    loss = Centered()
    own = beside(loss)
    loss(torch.randn(8, 4))
    own.close()
    assert own.called is None
