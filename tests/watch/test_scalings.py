"""The factor between what a backward pass has left and what the optimizer gets."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ddpcheck.watch.scalings import Scalings
from ddpcheck.watch.trained import Watched

BACKWARD = SimpleNamespace(name="backward")


def factors(change: Callable[[torch.Tensor], object], *, steps: int = 2) -> tuple[float, ...]:
    """Return what is told of a sharded model whose script changes each gradient after backward."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    vars(model[0].weight)["_fsdp_flattened"] = True
    scalings = Scalings()
    scalings.on_built(Watched(model, model, (), "cpu"))
    for step in range(steps):
        model.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        scalings.on_called(BACKWARD)
        for each in model.parameters():
            change(each.grad if each.grad is not None else each)
        scalings.on_gradients(step)
    return scalings.factors()


def test_what_is_scaled_has_one_factor() -> None:
    assert factors(lambda each: each.mul_(0.25)) == pytest.approx([0.25, 0.25])
    assert factors(lambda each: each) == pytest.approx([1.0, 1.0])


def test_what_is_clipped_by_value_or_by_layer_has_none() -> None:
    assert factors(lambda each: each.clamp_(-1e-3, 1e-3)) == (0.0, 0.0)
    assert factors(lambda each: each.div_(each.norm())) == (0.0, 0.0)


def test_gradients_that_are_no_numbers_or_none_tell_nothing() -> None:
    assert factors(lambda each: each.fill_(torch.nan)) == (0.0, 0.0)
    assert factors(torch.Tensor.zero_) == (0.0, 0.0)


def test_a_model_that_is_not_sharded_is_left_alone() -> None:
    model = nn.Linear(4, 1)
    scalings = Scalings()
    scalings.on_built(Watched(model, model, (), "cpu"))
    scalings.on_called(BACKWARD)
    scalings.on_gradients(0)
    assert scalings.factors() == ()
