"""By what number a script's gradients are multiplied between a mean and the average of ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from ddpcheck.watch.meetings import Called
from ddpcheck.watch.weighings import Weighings

BACKWARD = Called("backward", 0.0)
PAIR = (0, 1)


def averaging() -> tuple[Weighings, nn.Linear]:
    """Return what watches a model that is trained without DDP, after a backward pass."""
    model = nn.Linear(3, 2)
    weighings = Weighings()
    live: Any = SimpleNamespace(module=model, ddp=None)
    weighings.on_built(live)
    model(torch.ones(4, 3)).square().sum().backward()
    weighings.on_called(BACKWARD)
    return weighings, model


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [each.grad for each in model.parameters() if each.grad is not None]


@pytest.mark.parametrize("factor", [1.0, 0.25])
def test_gradients_that_are_summed_one_by_one(factor: float) -> None:
    weighings, model = averaging()
    for each in gradients(model):
        each.mul_(factor)
        weighings.on_reducing(each.data, PAIR)
    weighings.on_gradients(0)
    assert weighings.by_hand(0) == pytest.approx(factor)
    assert weighings.group == PAIR


def test_gradients_that_are_summed_in_one_tensor() -> None:
    weighings, model = averaging()
    weighings.on_reducing(torch.cat([each.flatten() / 8 for each in gradients(model)]), PAIR)
    weighings.on_gradients(0)
    assert weighings.by_hand(0) == pytest.approx(1 / 8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.complex64])
def test_gradients_of_other_types(dtype: torch.dtype) -> None:
    weighings, model = averaging()
    model.to(dtype)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    weighings.on_called(BACKWARD)
    for each in gradients(model):
        weighings.on_reducing(each, PAIR)
    weighings.on_gradients(0)
    assert weighings.by_hand(0) == pytest.approx(1.0)


def test_what_is_summed_in_part_is_not_known() -> None:
    weighings, model = averaging()
    weighings.on_reducing(gradients(model)[0], PAIR)
    weighings.on_reducing(torch.ones(()), PAIR)  # a metric
    weighings.on_gradients(0)
    assert weighings.by_hand(0) is None


def test_steps_are_told_apart() -> None:
    weighings, model = averaging()
    weighings.on_step(0)
    weighings.on_called(BACKWARD)
    for each in gradients(model):
        weighings.on_reducing(each, PAIR)
    weighings.on_gradients(1)
    assert weighings.by_hand(0) is None
    assert weighings.by_hand(1) == pytest.approx(1.0)


def test_what_ddp_averages_is_no_matter() -> None:
    model = nn.Linear(3, 2)
    weighings = Weighings()
    live: Any = SimpleNamespace(module=model, ddp=object())
    weighings.on_built(live)
    model(torch.ones(4, 3)).sum().backward()
    weighings.on_called(BACKWARD)
    for each in gradients(model):
        weighings.on_reducing(each, PAIR)
    weighings.on_gradients(0)
    assert weighings.group == ()


def test_parameters_that_are_sharded_are_left_alone() -> None:
    class Sharded(nn.Parameter):
        """Stands for a DTensor."""

    weighings, model = averaging()
    model.weight = Sharded(torch.zeros(2, 3))
    live: Any = SimpleNamespace(module=model, ddp=None)
    weighings.on_built(live)
    weighings.on_step(0)
    weighings.on_called(BACKWARD)
    weighings.on_reducing(gradients(model)[0], PAIR)
    assert weighings.group == ()


def test_hooks_that_multiply_by_one_number() -> None:
    weighings = Weighings()
    came = torch.randn(4, 5)
    weighings.on_weighed(came, came * 3)
    weighings.on_weighed(came[0], came[0] * 3)
    assert weighings.has_hook
    assert weighings.of_hooks(0) == pytest.approx(3.0)
    assert weighings.of_hooks(1) == 1.0


@pytest.mark.parametrize("second", ["another", "clamped", "in place"])
def test_hooks_that_do_otherwise_are_not_known(second: str) -> None:
    weighings = Weighings()
    came = torch.randn(40)
    weighings.on_weighed(came, came * 3)
    made = {"another": came * 2, "clamped": came.clamp(-0.1, 0.1)}.get(second)
    weighings.on_weighed(None if made is None else came, made)
    assert weighings.of_hooks(0) == 1.0
