from collections.abc import Callable
from typing import Any

import pytest
import torch
from contexts import context_with
from torch import nn

from ddpcheck.checks.checkpoint.read_into_nothing import Observer
from ddpcheck.finding import Location
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
        (copies_by_hand, 0),
        (keeps_an_average, 0),
        (gives_the_model_itself, 0),
    ],
)
def test_weights_are_lost_where_neither_a_model_nor_the_script_has_them(
    resume: Callable[[nn.Module, EventStream], object], lost: int
) -> None:
    assert lost_by(resume) == lost
