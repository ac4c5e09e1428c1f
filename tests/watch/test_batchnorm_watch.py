from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ddpcheck.measures.batchnorm import Layer
from ddpcheck.watch.batchnorm import KEPT_CHANNELS, BatchNormWatch


class OwnNorm(nn.BatchNorm1d):
    """A user's own layer."""


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def seen(model: nn.Module, *batches: Tensor) -> tuple[Layer, ...]:
    watch = BatchNormWatch(model)
    for batch in batches:
        model(batch)
    return watch.close()


def test_layers_are_found_in_model_order_and_described() -> None:
    model = nn.Sequential(
        nn.BatchNorm2d(3),
        nn.Sequential(nn.SyncBatchNorm(3), nn.GroupNorm(1, 3), nn.LayerNorm(3)),
        OwnNorm(3),
        nn.InstanceNorm1d(3),
    )
    layers = seen(model)
    assert [layer.name for layer in layers] == ["0", "1.0", "2"]
    assert [layer.synchronized for layer in layers] == [False, True, False]
    assert [layer.custom for layer in layers] == [False, False, True]
    assert layers[0].kind == "torch.nn.modules.batchnorm.BatchNorm2d"
    assert layers[2].kind == f"{__name__}.OwnNorm"
    assert [(layer.samples, layer.means) for layer in layers] == [(0, ())] * 3


def test_a_model_without_such_layers_has_none() -> None:
    assert seen(nn.Linear(2, 2), torch.ones(1, 2)) == ()


@pytest.mark.parametrize(
    ("layer", "shape", "values"),
    [
        pytest.param(nn.BatchNorm1d, (5, 3), 5, id="vectors"),
        pytest.param(nn.BatchNorm1d, (5, 3, 7), 35, id="sequences"),
        pytest.param(nn.BatchNorm2d, (5, 3, 7, 2), 70, id="pictures"),
        pytest.param(nn.BatchNorm3d, (5, 3, 2, 3, 4), 120, id="volumes"),
    ],
)
def test_statistics_are_those_of_each_channel(
    layer: Callable[[int], nn.Module], shape: tuple[int, ...], values: int
) -> None:
    batch = 3 * normal(*shape) + 2
    (found,) = seen(layer(3), batch)
    channels = batch.transpose(0, 1).reshape(3, -1)
    assert (found.samples, found.values) == (5, values)
    assert found.means == pytest.approx(channels.mean(dim=1).tolist())
    assert found.variances == pytest.approx(channels.var(dim=1, correction=0).tolist())


def test_the_last_training_batch_counts() -> None:
    (found,) = seen(nn.BatchNorm1d(2), torch.ones(3, 2), torch.full((4, 2), 7.0))
    assert (found.samples, found.means, found.variances) == (4, (7.0, 7.0), (0.0, 0.0))


def test_evaluation_and_empty_batches_do_not_count() -> None:
    model = nn.BatchNorm1d(2)
    watch = BatchNormWatch(model)
    model(torch.ones(3, 2))
    model.eval()
    model(torch.full((9, 2), 5.0))
    model.train()
    model(torch.ones(0, 2))
    (found,) = watch.close()
    assert (found.samples, found.means) == (3, (1.0, 1.0))


def test_only_the_first_channels_are_kept() -> None:
    (found,) = seen(nn.BatchNorm1d(100), normal(4, 100))
    assert len(found.means) == len(found.variances) == KEPT_CHANNELS


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_other_dtypes_are_seen(dtype: torch.dtype) -> None:
    model = nn.BatchNorm1d(2, dtype=dtype)
    (found,) = seen(model, torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtype))
    assert (found.means, found.variances) == ((2.0, 3.0), (1.0, 1.0))


def test_what_is_not_a_number_can_be_told() -> None:
    (found,) = seen(nn.BatchNorm1d(2), torch.tensor([[float("nan"), float("inf")], [1.0, 1.0]]))
    assert all(abs(number) < 1e39 for number in (*found.means, *found.variances))
    assert found.means[0] == 0.0


def test_watching_changes_nothing() -> None:
    batch = normal(6, 4).requires_grad_()
    model, twin = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    state = torch.get_rng_state()
    watch = BatchNormWatch(model)
    watched, plain = model(batch), twin(batch)
    assert torch.equal(watched, plain)
    assert torch.equal(model.get_buffer("running_mean"), twin.get_buffer("running_mean"))
    assert torch.equal(torch.get_rng_state(), state)
    watched.square().sum().backward()
    assert batch.grad is not None
    watch.close()


def test_closing_takes_the_hooks_off() -> None:
    model = nn.BatchNorm1d(2)
    watch = BatchNormWatch(model)
    before = watch.close()
    model(torch.ones(3, 2))
    assert watch.close() == before


def test_a_layer_that_is_used_twice_is_one() -> None:
    shared = nn.BatchNorm1d(2)
    (found,) = seen(nn.Sequential(shared, nn.Tanh(), shared), normal(4, 2))
    assert found.name == "0"


class ByKeyword(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.as_tensor(self.norm(input=inputs))


def test_a_layer_that_is_called_by_keyword_is_no_crash() -> None:
    (found,) = seen(ByKeyword(), normal(4, 2))
    assert found.samples in (0, 4)
