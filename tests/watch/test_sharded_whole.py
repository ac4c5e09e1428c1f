"""Whether what was sharded still holds what each rank had made."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.watch.sharded_whole import ShardedWhole


def held(module: nn.Module) -> ShardedWhole:
    return ShardedWhole(module, list(module.parameters()), None)


def test_what_nobody_has_touched_has_a_digest() -> None:
    layer = nn.Linear(2, 2)
    whole = held(layer)
    whole.look_again()
    assert whole.digest()


def test_what_was_made_anew_has_none() -> None:
    layer = nn.Linear(2, 2)
    whole = held(layer)
    layer.reset_parameters()
    whole.look_again()
    assert whole.digest() == ""


def test_what_was_on_the_meta_device_was_made_later() -> None:
    layer = nn.Linear(2, 2, device="meta")
    whole = held(layer)
    layer.to_empty(device="cpu")
    layer.reset_parameters()
    whole.look_again()
    assert whole.digest() == ""


def test_another_dtype_may_be_of_the_same_values() -> None:
    layer = nn.Linear(2, 2, dtype=torch.float32)
    whole = held(layer)
    layer.double()
    whole.look_again()
    assert whole.digest()


def test_what_is_gone_is_as_it_was() -> None:
    whole = held(nn.Linear(2, 2))
    whole.look_again()
    assert whole.digest()


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[None]:
    dist.init_process_group("fake", rank=request.param, world_size=2, store=FakeStore())
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("group", "rows", "is_known"),
    [
        pytest.param(0, slice(2, 4), True, id="rows of rank 1 in what rank 0 has gathered"),
        pytest.param(0, slice(0, 2), False, id="its own rows are others"),
        pytest.param(1, slice(0, 4), True, id="rank 1 leaves it to rank 0"),
    ],
    indirect=["group"],
)
def test_of_a_parameter_that_is_gathered_the_first_ranks_rows_tell(
    rows: slice, is_known: bool
) -> None:
    layer = nn.Linear(2, 4, bias=False)
    whole = held(layer)
    whole.ranks = (0, 1)
    with torch.no_grad():
        layer.weight[rows] += 1
    whole.look_again()
    assert bool(whole.digest()) is is_known


def test_what_a_pass_has_in_fewer_bits_is_the_same() -> None:
    layer = nn.Linear(2, 2)
    whole = held(layer)
    layer.bfloat16()
    whole.look_again()
    assert whole.digest()
