"""What a script does to its wrapped model, and what of it cannot be seen."""

from collections.abc import Iterator

import pytest
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.measures.deeds import Kind
from ddpcheck.watch.deeds import Deeds
from ddpcheck.watch.functions import Functions
from ddpcheck.watch.trained import Watched


@pytest.fixture
def live() -> Iterator[Watched]:
    """Return a model in DDP, on rank 0 of two in a group that communicates nothing."""
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    ddp = DistributedDataParallel(nn.Linear(2, 1))
    yield Watched(ddp.module, ddp, (), "cpu")
    dist.destroy_process_group()


def kinds(deeds: Deeds) -> list[Kind]:
    """Return what was done in a step of which no forward through DDP was told."""
    deeds.on_loss(0, None)
    deeds.on_step(0)
    return [each.kind for each in deeds.kept]


def test_a_forward_around_the_wrapper_is_noted(live: Watched) -> None:
    deeds = Deeds()
    deeds.on_built(live)
    assert kinds(deeds) == [Kind.BYPASSED]


def test_of_a_compiled_wrapper_it_is_not_known(live: Watched) -> None:
    deeds = Deeds()
    deeds.on_built(live)
    deeds.on_compiled(live.model)
    assert kinds(deeds) == []


def test_a_wrapper_may_be_compiled_in_place(live: Watched) -> None:
    deeds = Deeds()
    deeds.on_built(live)

    def hear(_event: str, model: nn.Module) -> None:
        deeds.on_compiled(model)

    functions = Functions(hear)
    functions.install()
    live.model.compile()
    functions.close()
    assert kinds(deeds) == []


def test_the_bare_model_may_be_compiled(live: Watched) -> None:
    deeds = Deeds()
    deeds.on_built(live)
    deeds.on_compiled(live.module)
    assert kinds(deeds) == [Kind.BYPASSED]
