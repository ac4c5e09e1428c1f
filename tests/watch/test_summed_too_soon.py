"""Gradients that a script sums, and that a backward pass changes before the optimizer's step."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from ddpcheck.watch.by_hand import SummedTooSoon
from ddpcheck.watch.meetings import Called

PAIR, OTHERS = (0, 1), (2, 3)
BOTH = ["weight", "bias"]


class Training:
    """A model that is trained without DDP, and what watches it; no other rank is there."""

    def __init__(self, ddp: object = None) -> None:
        self.model = nn.Linear(3, 2)
        self.watching = SummedTooSoon()
        live: Any = SimpleNamespace(module=self.model, ddp=ddp)
        self.watching.on_built(live)  # in the first step, as scripts without DDP do
        self.watching.on_step(0)
        self.steps = 1

    def backward(self, *, within: Callable[[], None] | None = None, of: str = "") -> None:
        """Take a backward pass, of all or of one parameter, with a hook at its end."""
        loss = self.model(torch.ones(4, 3)).square().sum()
        if of:
            loss = self.model.get_parameter(of).square().sum()
        self.watching.on_loss(self.steps, loss)
        loss.backward()
        if within is not None:
            within()
        self.watching.on_called(Called("backward", 0.0))

    def sum_up(self, *names: str, ranks: tuple[int, ...] = PAIR) -> None:
        """Sum gradients in place, as scripts do by their ``data``, and divide them."""
        for name in names or BOTH:
            gradient = self.model.get_parameter(name).grad
            assert gradient is not None
            self.watching.on_reducing(gradient.data, ranks)
            gradient.div_(2)

    def step(self, *, set_to_none: bool = True) -> None:
        """End the step."""
        self.watching.on_step(self.steps)
        self.steps += 1
        self.model.zero_grad(set_to_none=set_to_none)


def too_soon(training: Training) -> None:
    training.backward()
    training.sum_up()
    training.backward()
    training.step()


def in_time(training: Training) -> None:
    training.backward()
    training.backward()
    training.sum_up()
    training.step()


def test_what_is_summed_before_the_last_backward_pass_is_noted() -> None:
    training = Training()
    for _ in range(5):
        too_soon(training)
    assert training.watching.names(PAIR) == BOTH
    assert training.watching.names(OTHERS) == []


def after_each_pass(training: Training) -> None:
    for _ in range(2):
        training.backward()
        training.sum_up()
    training.step(set_to_none=False)


def by_hooks(training: Training) -> None:
    for _ in range(3):
        training.backward(within=training.sum_up)
    training.step()


def a_copy_for_a_metric(training: Training) -> None:
    training.backward()
    for each in training.model.parameters():
        assert each.grad is not None
        training.watching.on_reducing(each.grad.clone(), PAIR)
    training.backward()
    training.step()


def taken_away_in_between(training: Training) -> None:
    # As where weights are moved by the average first, and trained from there.
    training.backward()
    training.sum_up()
    training.model.zero_grad()
    training.backward()
    training.backward()
    training.step()


def not_this_time(training: Training) -> None:
    (in_time if training.steps % 2 else too_soon)(training)


@pytest.mark.parametrize(
    "step",
    [in_time, after_each_pass, by_hooks, a_copy_for_a_metric, taken_away_in_between, not_this_time],
)
def test_nothing_is_noted(step: Callable[[Training], None]) -> None:
    training = Training()
    for _ in range(4):
        step(training)
    assert training.watching.names(PAIR) == []


def test_only_what_the_later_pass_came_to_is_noted() -> None:
    training = Training()
    training.backward()
    training.sum_up()
    training.backward(of="bias")
    training.step()
    assert training.watching.names(PAIR) == ["bias"]


def test_ddp_is_left_alone() -> None:
    training = Training(ddp=object())
    too_soon(training)
    assert training.watching.names(PAIR) == []


def test_sparse_gradients_are_left_alone() -> None:
    training = Training()
    training.backward()
    training.watching.on_reducing(torch.ones(2, 2).to_sparse(), PAIR)
    training.step()
    assert training.watching.names(PAIR) == []
