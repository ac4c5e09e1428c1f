"""Which buffers a graph holds, and when another value in them is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ddpcheck.watch.held_buffers import FIRST_LOOKS, HeldBuffers
from ddpcheck.watch.packed import PACKED
from ddpcheck.watch.replaced import Replaced

BATCH = torch.arange(12.0).reshape(4, 3)


class Broadcasts(nn.Module):
    """In the place of DDP on a rank that gets other values before each forward pass."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        for buffer in self.module.buffers():
            buffer.data.add_(1)
        made: Tensor = self.module(x)
        return made


class Scaled(nn.Module):
    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("scale", values)
        self.scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear(x) * self.scale
        return made


class Views(Scaled):
    def forward(self, x: Tensor) -> Tensor:
        masked: Tensor = self.linear(x).masked_fill(self.scale[:3] > 3, 0.0)
        return masked * self.scale[:3].exp()


class Cut(Scaled):
    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear(x) * self.scale.clone()
        return made


class Checkpointed(Scaled):
    def forward(self, x: Tensor) -> Tensor:
        made = checkpoint(super().forward, x, use_reentrant=False)
        assert isinstance(made, Tensor)
        return made


def twice(model: Callable[[Tensor], Tensor]) -> None:
    (model(BATCH).sum() + model(-BATCH).square().sum()).backward()


def one_by_one(model: Callable[[Tensor], Tensor]) -> None:
    model(BATCH).sum().backward()
    model(-BATCH).square().sum().backward()


def looked_at(module: nn.Module, train: Callable[[Callable[[Tensor], Tensor]], None]) -> list[str]:
    wrapped = Broadcasts(module)
    watch = HeldBuffers(wrapped, module, lambda: 0)
    train(wrapped)
    return [each.name for each in watch.close()]


def test_a_buffer_that_is_overwritten_before_its_backward_pass() -> None:
    assert looked_at(Scaled(torch.ones(3)), twice) == ["scale"]


def test_each_backward_pass_before_the_next_forward_pass() -> None:
    assert looked_at(Scaled(torch.ones(3)), one_by_one) == []


def test_not_a_number_is_no_change() -> None:
    assert looked_at(Scaled(torch.full((3,), torch.nan)), twice) == []


def test_copies_of_a_buffer_are_no_matter() -> None:
    assert looked_at(Cut(torch.ones(3)), twice) == []


def test_what_autograd_made_of_a_buffer_is_no_matter() -> None:
    assert looked_at(Views(torch.ones(6)), twice) == []


def test_a_view_of_a_buffer() -> None:
    class Sliced(Scaled):
        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.linear(x) * self.scale[:3]
            return made

    assert looked_at(Sliced(torch.ones(6)), twice) == ["scale"]


def test_running_statistics_that_training_does_not_use() -> None:
    assert looked_at(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), twice) == []


def test_running_statistics_of_a_frozen_layer() -> None:
    frozen = nn.BatchNorm1d(3).eval()
    frozen.num_batches_tracked = None
    found = looked_at(nn.Sequential(nn.Linear(3, 3), frozen), twice)
    assert sorted(found) == ["1.running_mean", "1.running_var"]


def test_what_is_packed_is_left_alone() -> None:
    replaced = Replaced()
    PACKED.watch(replaced)
    try:
        assert looked_at(Checkpointed(torch.ones(3)), twice) == []
    finally:
        replaced.close()


def test_no_more_looks_where_no_graph_holds_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    looks: list[int] = []
    HeldBuffers(Broadcasts(module), module, lambda: 0)

    def named_buffers() -> list[tuple[str, Tensor]]:
        looks.append(1)
        return []

    monkeypatch.setattr(module, "named_buffers", named_buffers)
    for _ in range(FIRST_LOOKS + 3):
        module(BATCH)
    assert len(looks) == FIRST_LOOKS


@pytest.mark.parametrize("count", [3, 30])
def test_forward_passes_that_no_backward_pass_comes_of(count: int) -> None:
    def evaluate(model: Callable[[Tensor], Tensor]) -> None:
        for _ in range(count):
            model(BATCH)
        model(BATCH).sum().backward()

    assert looked_at(Scaled(torch.ones(3)), evaluate) == []
