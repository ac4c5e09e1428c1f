"""Of other models in DDP it is known what they hold, not when their gradients are whole."""

from collections.abc import Iterator

import pytest
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.watch.replicas import Replica, replicated_beside
from ddpcheck.watch.trained import Watched


@pytest.fixture
def pair() -> Iterator[Watched]:
    """Return a model in DDP with another one beside it, which has one of its layers."""
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    layer = nn.Linear(2, 2)
    ddp = DistributedDataParallel(layer)
    other = DistributedDataParallel(nn.Sequential(layer, nn.Linear(2, 1)))
    yield Watched(ddp.module, ddp, (), "cpu", beside=(other,))
    dist.destroy_process_group()


def test_what_both_have_is_the_trained_models(pair: Watched) -> None:
    names = [name for name, _ in replicated_beside(pair)]
    assert names == ["Sequential[0].1.weight", "Sequential[0].1.bias"]


def test_a_replica_has_both_models_and_the_gradients_of_one(pair: Watched) -> None:
    for _, each in (*pair.module.named_parameters(), *replicated_beside(pair)):
        each.grad = each.detach().clone()
    replica = Replica(pair)
    assert set(replica.sketch()) == {"weight", "bias", *dict(replicated_beside(pair))}
    assert set(replica.sketch_gradients()) == {"weight", "bias"}
