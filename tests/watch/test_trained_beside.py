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
