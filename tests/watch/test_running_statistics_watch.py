import copy
import io
from collections.abc import Callable

import pytest
import torch
from torch import nn

from ddpcheck.watch.running_statistics import RunningStatistics


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())


def test_each_evaluation_is_noted_as_it_begins() -> None:
    model = net()
    watch = RunningStatistics(model)
    model(torch.ones(2, 3))
    model.eval()
    model(torch.ones(2, 3))
    model(torch.ones(2, 3))
    model.train()
    model(torch.randn(8, 3) * 9)
    model.eval()
    model(torch.ones(2, 3))
    first, second = watch.close()
    assert [layer.name for layer in first.layers] == ["1"]
    assert first.layers != second.layers
    assert first.location is not None
    assert first.location.file == __file__
    assert not vars(model)["_forward_pre_hooks"]


@pytest.mark.parametrize(
    "make", [lambda: nn.Linear(3, 1), lambda: nn.BatchNorm1d(3, track_running_stats=False)]
)
def test_a_model_without_statistics_is_left_alone(make: Callable[[], nn.Module]) -> None:
    model = make()
    watch = RunningStatistics(model)
    assert not vars(model)["_forward_pre_hooks"]
    assert watch.close() == ()


def test_copies_and_files_of_the_model_have_none_of_it() -> None:
    model = net()
    watch = RunningStatistics(model)
    file = io.BytesIO()
    torch.save(model, file)
    assert b"ddpcheck" not in file.getvalue()
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        other.eval()(torch.ones(2, 3))
    assert watch.close() == ()
