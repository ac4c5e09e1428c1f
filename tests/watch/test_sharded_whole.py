"""Whether what was sharded still holds what each rank had made."""

import torch
from torch import nn

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
