from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from contexts import context_with
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.check import Skip
from ddpcheck.checks.data.same_inputs import Facts, Observer
from ddpcheck.watch.stream import EventStream
from ddpcheck.watch.trained import Watched

CONTEXT = context_with(watches=True)


@pytest.fixture
def ddp() -> Iterator[DistributedDataParallel]:
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield DistributedDataParallel(nn.Linear(4, 1))
    dist.destroy_process_group()


def seen(ddp: DistributedDataParallel, *, loads: bool = False) -> Facts:
    observer = Observer(CONTEXT)
    stream = EventStream({"": observer})
    stream.emit("built", Watched(ddp.module, ddp, (), "cpu"))
    for step in range(3):
        inputs = torch.full((2, 4), float(step)) + torch.arange(4)
        if loads:
            stream.emit("batch", step, inputs)
        stream.emit("inputs", step, ((inputs,), {}))
        stream.emit("loss", step, ddp.module(inputs).sum())
    return observer.facts()


def test_inputs_and_losses_are_kept_with_the_call(ddp: DistributedDataParallel) -> None:
    facts = seen(ddp)
    assert len(set(facts.inputs)) == len(set(facts.losses)) == 3
    assert facts.group == (0, 1)
    assert facts.location is not None
    assert facts.location.file == __file__


def test_batches_of_a_loader_are_compared_elsewhere(ddp: DistributedDataParallel) -> None:
    with pytest.raises(Skip, match="data/same-batches"):
        seen(ddp, loads=True)


def test_of_a_sharded_model_what_is_sharded_last_is_looked_at() -> None:
    observer = Observer(CONTEXT)
    stream = EventStream({"": observer})
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))

    class Mesh:
        mesh = torch.arange(2)

    for each in (*model, model):
        stream.emit("sharded", each, Mesh, None)
    model.eval()(torch.randn(2, 4))  # an evaluation
    with torch.no_grad():
        model.train()(torch.randn(2, 4))
    for step in range(2):
        stream.emit("loss", step, model(torch.randn(2, 4)).sum())
    facts = observer.facts()
    assert (len(facts.inputs), facts.group) == (2, (0, 1))
    assert not any(vars(each)["_forward_pre_hooks"] for each in model.modules())


def test_nothing_that_tells_is_a_skip() -> None:
    with pytest.raises(Skip, match="no inputs"):
        Observer(CONTEXT).facts()
