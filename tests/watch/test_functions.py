"""Functions that are told of: who compiles or traces what calls them notices nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.engine.blackbox import BlackBox
from ddpcheck.watch.calls import recorded_calls
from ddpcheck.watch.functions import Functions

TARGETS = torch.tensor([0, 2, 1, 1])


class Scored(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = self.loss(self.layer(x), targets) + functional.cross_entropy(
            x, targets
        )
        return value


@pytest.fixture
def told() -> Iterator[list[Any]]:
    """Yield what is told of, from when the functions are in place until they are put back."""
    heard: list[Any] = []
    functions = Functions(lambda *event: heard.append(event))
    functions.install()
    try:
        yield heard
    finally:
        functions.close()


def mean(x: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(x, TARGETS)


def test_a_mean_is_told_of_with_its_targets(told: list[Any]) -> None:
    loss = functional.cross_entropy(torch.ones(4, 3, requires_grad=True), TARGETS, ignore_index=2)
    ((event, value, targets, ignored, location),) = told
    assert (event, ignored, location.file) == ("averaged", 2, __file__)
    assert value is loss
    assert targets is TARGETS


def test_what_is_compiled_is_the_original(told: list[Any]) -> None:
    net, x = Scored(), torch.randn(4, 3)
    scripted: Any = torch.jit.script(net)
    assert torch.equal(scripted(x, TARGETS), net(x, TARGETS))
    told.clear()
    compiled = torch.compile(mean, backend="aot_eager", fullgraph=True)
    compiled(x.requires_grad_()).backward()
    assert told == []


def test_what_is_traced_or_mapped_is_left_alone(told: list[Any]) -> None:
    x = torch.randn(4, 3, requires_grad=True)
    torch.jit.trace(mean, (x,))
    torch.func.grad(mean)(x.detach())
    torch.func.vmap(torch.func.grad(mean))(torch.randn(2, 4, 3))
    assert told == []


def test_what_is_not_as_foreseen_raises_as_ever(told: list[Any]) -> None:
    called: Any = functional.cross_entropy
    with pytest.raises(TypeError, match="target"):
        called(torch.ones(4, 3))
    assert told == []


def test_a_tensor_with_a_history_that_is_gathered() -> None:
    heard: list[Any] = []
    functions = Functions(lambda *event: heard.append(event))
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    z = torch.ones(2, requires_grad=True) * 2
    parts, whole = [torch.empty(2), torch.empty(2)], torch.empty(4)
    try:
        with recorded_calls(BlackBox(None), begins=functions.called):
            gather_into_tensor: Any = getattr(dist, "all_gather_into_tensor")  # noqa: B009
            dist.all_gather(parts, z)
            gather_into_tensor(output_tensor=whole, input_tensor=z)
            for silent in (z.detach(), torch.ones(2, requires_grad=True)):
                dist.all_gather(parts, silent)
            with torch.no_grad():
                dist.all_gather(parts, z)
            dist.all_reduce(z)
    finally:
        dist.destroy_process_group()
    assert [(event, tensor is z) for event, tensor, _ in heard] == [("gathered", True)] * 3
    assert heard[0][2].file == __file__


def test_what_hears_of_a_call_may_raise() -> None:
    def refuse(*_told: object) -> None:
        raise LookupError

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        with recorded_calls(BlackBox(None), begins=refuse):
            dist.barrier()
    finally:
        dist.destroy_process_group()


def weighed(told: list[Any], hook: Any) -> list[Any]:
    """Return what is told of a hook on a tensor."""
    scores = torch.ones(3, requires_grad=True) * 1.0
    scores.register_hook(hook)
    scores.square().sum().backward()
    return [each for each in told if each[0] == "weighed"]


def test_a_hook_that_makes_another_gradient_is_told_of(told: list[Any]) -> None:
    def double(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2

    ((_, came, made),) = weighed(told, double)
    assert torch.equal(made, came * 2)


def test_a_hook_that_changes_a_gradient_in_place_is_told_of(told: list[Any]) -> None:
    def halve(gradient: torch.Tensor) -> None:
        gradient.mul_(0.5)

    assert weighed(told, halve) == [("weighed", None, None)]


def test_a_hook_that_only_looks_is_left_alone(told: list[Any]) -> None:
    seen: list[torch.Tensor] = []
    assert weighed(told, seen.append) == []
    assert len(seen) == 1


def test_a_sum_over_ranks_is_told_of_with_them() -> None:
    heard: list[Any] = []
    functions = Functions(lambda *event: heard.append(event))
    store = FakeStore()
    dist.init_process_group("fake", rank=0, world_size=2, store=store)
    try:
        value = torch.ones(2)
        functions.called("all_reduce", (value,), {})
        functions.called("all_reduce", (value, dist.ReduceOp.MAX), {})
        functions.called("all_reduce", (torch.ones(2, dtype=torch.int64),), {})
    finally:
        dist.destroy_process_group()
    assert [each[2] for each in heard] == [(0, 1)]
    assert heard[0][1] is value
