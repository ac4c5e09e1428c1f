from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

import pytest
import torch
import torch.distributed as dist
from contexts import context_with
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.check import Skip
from ddpcheck.checks.checkpoint.read_into_nothing import Observer
from ddpcheck.finding import Location
from ddpcheck.watch.states import is_its_own, is_its_own_sharded, version_of
from ddpcheck.watch.stream import EventStream

LINE = Location("/train.py", 40, "resume")
State = dict[str, Any]


def copied(model: nn.Module) -> State:
    return {name: each.detach() + 1 for name, each in model.state_dict().items()}


def lost_by(resume: Callable[[nn.Module, EventStream], object]) -> int:
    """Return how many weights are lost where a script resumes so, and then makes a step."""
    observer = Observer(context_with(watches=True))
    stream, model = EventStream({"": observer}), nn.Linear(3, 2)
    kept = resume(model, stream)
    stream.emit("gradients", 0)
    del kept
    return observer.facts().lost


def forgets(model: nn.Module, stream: EventStream) -> None:
    stream.emit("restored", {"model": copied(model)}, LINE)


def reads_optimizer_only(_model: nn.Module, stream: EventStream) -> None:
    moments = {"state": {"weight": {"exp_avg": torch.ones(3)}}, "param_groups": []}
    stream.emit("restored", {"optimizer": moments, "step": 3}, LINE)


def reads_in_place(model: nn.Module, stream: EventStream) -> None:
    stream.emit("restored", {"model": model.state_dict()}, LINE)


def sets(model: nn.Module, stream: EventStream) -> None:
    stream.emit("restored", {"model": copied(model)}, LINE)
    stream.emit("loaded", model, ("weight", "bias"), (), (), LINE)


def is_given_its_own(model: nn.Module, stream: EventStream) -> None:
    stream.emit("restored", {"model": copied(model)}, LINE)
    stream.emit("returning", model)
    stream.emit("loaded", model, ("weight", "bias"), (), (), LINE)


def is_given_its_own_and_more(model: nn.Module, stream: EventStream) -> None:
    is_given_its_own(model, stream)
    stream.emit("loaded", model, ("weight", "bias"), (), (), LINE)


def another_is_given_its_own(model: nn.Module, stream: EventStream) -> None:
    stream.emit("restored", {"model": copied(model)}, LINE)
    stream.emit("returning", nn.Linear(3, 2))
    stream.emit("loaded", model, ("weight", "bias"), (), (), LINE)


def is_given_its_own_once_filled(model: nn.Module, stream: EventStream) -> None:
    stream.emit("restored", {"model": copied(model)}, LINE)
    for each in model.parameters():
        each.data.mul_(2)  # a part of what was read as a whole
    stream.emit("returning", model)
    stream.emit("loaded", model, ("weight", "bias"), (), (), LINE)


def copies_by_hand(model: nn.Module, stream: EventStream) -> None:
    state = copied(model)
    stream.emit("restored", state, LINE)
    with torch.no_grad():
        for name, each in model.named_parameters():
            each.copy_(state[name])


def keeps_an_average(model: nn.Module, stream: EventStream) -> State:
    average = copied(model)
    stream.emit("restored", {"ema": average}, LINE)
    return average


def gives_the_model_itself(model: nn.Module, stream: EventStream) -> None:
    stream.emit("restored", {"model": model, "more": copied(model)}, LINE)


@pytest.mark.parametrize(
    ("resume", "lost"),
    [
        (forgets, 2),
        (reads_optimizer_only, 0),
        (reads_in_place, 0),
        (sets, 0),
        (is_given_its_own, 2),
        (is_given_its_own_and_more, 0),
        (another_is_given_its_own, 0),
        (is_given_its_own_once_filled, 0),
        (copies_by_hand, 0),
        (keeps_an_average, 0),
        (gives_the_model_itself, 0),
    ],
)
def test_weights_are_lost_where_neither_a_model_nor_the_script_has_them(
    resume: Callable[[nn.Module, EventStream], object], lost: int
) -> None:
    assert lost_by(resume) == lost


@pytest.fixture
def sharded() -> Iterator[nn.Module]:
    """Yield a model of which this rank of two has the first half."""
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (2,))
        model = nn.Linear(3, 4)
        for name, each in list(model.named_parameters()):
            part = distribute_tensor(each.detach(), mesh, [Shard(0)])
            model.register_parameter(name, nn.Parameter(part))
        yield model
    finally:
        dist.destroy_process_group()


def test_parts_of_a_sharded_model_are_its_own(sharded: nn.Module) -> None:
    state = sharded.state_dict()
    assert is_its_own_sharded(sharded, state)
    assert not is_its_own(sharded, state)
    assert not is_its_own_sharded(sharded, {**state, "bias": state["bias"].clone()})
    assert not is_its_own_sharded(nn.Linear(3, 4), nn.Linear(3, 4).state_dict())
    assert not is_its_own_sharded(sharded, {})


def test_a_change_of_a_part_or_of_the_whole_is_counted(sharded: nn.Module) -> None:
    weight: Any = sharded.get_parameter("weight")
    counts = [version_of(weight)]
    with torch.no_grad():
        weight.to_local().add_(1)  # as torch fills it from what is whole
        counts.append(version_of(weight))
        sharded.state_dict()["weight"].add_(1)
        counts.append(version_of(weight))
    assert len(set(counts)) == 3
    with torch.inference_mode():
        assert version_of(torch.ones(2)) == -1


class Skips:
    """An observer that has no use for what it is told."""

    def on_built(self, _live: Any) -> None:
        raise Skip("no parameter is held by several ranks")


def test_what_a_script_lets_go_of_is_not_kept_by_a_skip() -> None:
    stream = EventStream({"x": Skips()})

    def builds() -> ref[Any]:
        large = torch.ones(3)
        stream.emit("built", None)
        return ref(large)

    assert builds()() is None
    assert isinstance(stream.raised["x"], Skip)
