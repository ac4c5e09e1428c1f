"""What other optimizers than the model's train."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from ddpcheck.watch.functions import Functions
from ddpcheck.watch.optimizers import MADE_AT
from ddpcheck.watch.trained import ParametersOf, Watched
from ddpcheck.watch.trained_beside import TrainedBeside


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    functions = Functions(lambda *_told: None)
    functions.install()
    yield
    functions.close()


def beside(main: torch.optim.Optimizer) -> TrainedBeside:
    found = TrainedBeside()
    module = ParametersOf(main)
    found.on_built(Watched(module, module, (), "cpu", main))
    return found


def test_a_second_optimizer_is_followed_with_its_line() -> None:
    model, other = nn.Linear(2, 1), nn.Linear(3, 1)
    main = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.SGD([*other.parameters(), *model.parameters()], lr=0.1)
    found = beside(main)
    found.on_other_step()
    assert sorted(found.names.values()) == ["bias", "weight"]
    assert set(found.lines.values()) == {MADE_AT[second]}
    assert found.before == found.sketch()
    assert (found.steps, len(found.digests())) == (1, 2)


@pytest.mark.parametrize(
    ("kind", "linked"),
    [("one loss", True), ("through the model", True), ("detached", False), ("another loss", False)],
)
def test_what_is_trained_with_the_model_is_linked(kind: str, linked: bool) -> None:
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    main = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    found = TrainedBeside()
    found.on_built(Watched(model, model, (), "cpu", main))
    x = torch.ones(1, 2)
    if kind == "through the model":
        model.requires_grad_(requires_grad=False)
    losses = {
        "one loss": lambda: other(model(x)),
        "through the model": lambda: model(other(x)),
        "detached": lambda: other(model(x).detach()),
        "another loss": lambda: other(x),
    }
    found.on_loss(0, losses[kind]().sum())
    found.close()
    assert second.param_groups
    assert found.linked is linked


def test_one_of_what_the_model_has_is_none() -> None:
    model = nn.Linear(2, 1)
    main = torch.optim.SGD(model.parameters(), lr=0.1)
    again = torch.optim.SGD(model.parameters(), lr=0.2)
    found = beside(main)
    found.on_other_step()
    assert again.param_groups
    assert (found.before, found.steps) == ({}, 0)


def test_tensors_that_are_no_modules_are_trained_too() -> None:
    tensor = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([tensor], lr=0.1)
    assert [each is tensor for each in ParametersOf(optimizer).parameters()] == [True]
