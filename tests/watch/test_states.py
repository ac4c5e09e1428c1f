"""States that a module is given, some of which are its own tensors."""

import copy

import pytest
import torch
from torch import nn

from ddpcheck.watch.states import is_its_own


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


def test_its_own_state_is_its_own() -> None:
    model = net()
    assert is_its_own(model, model.state_dict())
    merged = model.state_dict()
    merged.update({name: t for name, t in net().state_dict().items() if name not in merged})
    assert is_its_own(model, merged)


def test_tied_weights() -> None:
    model = net()
    model.add_module("2", model[0])
    assert is_its_own(model, model.state_dict())


@pytest.mark.parametrize("taken", ["0.weight", "1.running_mean"])
def test_one_tensor_of_another_model_is_loaded(taken: str) -> None:
    model = net()
    state = model.state_dict()
    state[taken] = net().state_dict()[taken]
    assert not is_its_own(model, state)


def test_copies_are_not() -> None:
    model = net()
    assert not is_its_own(model, copy.deepcopy(model.state_dict()))
    assert not is_its_own(model, {})
    assert not is_its_own(nn.ReLU(), {})


def test_what_has_no_values_is_not_known() -> None:
    with torch.device("meta"):
        model = net()
    assert not is_its_own(model, model.state_dict())
