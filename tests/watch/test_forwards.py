from typing import Any

import pytest
import torch
from torch import nn

from ddpcheck.watch import callsite
from ddpcheck.watch import forwards as under_test
from ddpcheck.watch.forwards import Forwards


class Model(nn.Linear):
    """Stands for DDP."""

    def __init__(self) -> None:
        super().__init__(3, 2)
        self.require_backward_grad_sync = True


class Told:
    """A model of which each forward pass and each loss is told."""

    def __init__(self) -> None:
        self.model: Any = Model()
        self.forwards = Forwards()

    def forward(self) -> torch.Tensor:
        self.forwards.made(self.model)
        out: torch.Tensor = self.model(torch.ones(1, 3))
        return out.sum()

    def look(self) -> torch.Tensor:
        return self.forward()

    def backward(self, loss: torch.Tensor) -> None:
        self.forwards.lost(loss, self.model)
        loss.backward()

    def steps(self, *bad: bool) -> int:
        """Return what was left out in a step of some batches, of which bad ones are."""
        for is_bad in bad:
            loss = self.forward()
            if is_bad:
                continue
            self.backward(loss)
        return self.forwards.left_out()


@pytest.fixture(autouse=True)
def _tests_are_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callsite, "is_users", __file__.__eq__)


def test_a_batch_that_was_left_out() -> None:
    told = Told()
    assert [told.steps(*each) for each in ([False], [True, False], [False], [True, True])] == [
        *(0, 1, 0, 2)
    ]
    place = told.forwards.first_left_out
    assert place is not None
    assert place.function == "forward"


def test_in_the_first_step_it_is_not_known() -> None:
    told = Told()
    assert told.steps(True, False) == 0


def test_a_look_from_another_line() -> None:
    told = Told()
    told.steps(False)
    told.look()
    assert told.steps(False) == 0
    assert told.forwards.first_left_out is None


@pytest.mark.parametrize("count", [2, 3])
def test_a_loss_of_several_forward_passes(count: int) -> None:
    told = Told()
    told.steps(False)
    told.backward(torch.stack([told.forward() for _ in range(count)]).sum())
    assert told.forwards.left_out() == 0


def test_losses_that_wait_for_each_other() -> None:
    told = Told()
    told.steps(False)
    for loss in [told.forward() for _ in range(3)]:
        told.backward(loss)
    assert told.forwards.left_out() == 0


def test_another_model_s_loss_is_of_none() -> None:
    told, other = Told(), nn.Linear(2, 1)
    told.steps(False)
    losses = [told.forward() for _ in range(2)]
    told.backward(other(torch.ones(1, 2)).sum())
    for loss in losses:
        told.backward(loss)
    assert told.forwards.left_out() == 0


def test_what_is_not_to_be_averaged_may_be_left_out() -> None:
    told = Told()
    told.steps(False)
    told.model.require_backward_grad_sync = False
    told.steps(False)
    assert told.steps(True) == 0


def test_a_graph_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    told.steps(False)
    monkeypatch.setattr(under_test, "KEPT_NODES", 1)
    assert told.steps(True, False) == 0
