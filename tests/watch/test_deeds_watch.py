"""What a script does to its wrapped model, and what of it cannot be seen."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.measures.deeds import Kind
from ddpcheck.watch.deeds import Deeds
from ddpcheck.watch.functions import Functions
from ddpcheck.watch.optimizer_settings import OptimizerSettings
from ddpcheck.watch.optimizers import MADE_AT
from ddpcheck.watch.schedules import Schedules
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


def settings_of(optimizer: torch.optim.Optimizer, steps: int, between: Callable[[], None]) -> Any:
    """Return what is kept of a training whose script does something between its steps."""
    told = OptimizerSettings()

    def hear(event: str, *values: Any) -> None:
        if receive := getattr(told, f"on_{event}", None):
            receive(*values)

    schedules, functions = Schedules(hear), Functions(hear)
    schedules.install()
    functions.install()
    for step in range(steps):
        told.stepped(optimizer, step)
        between()
    schedules.close()
    functions.close()
    return told.kept_of(optimizer)


def test_a_rate_that_a_measure_lowers_is_noted_with_the_schedulers_line() -> None:
    optimizer = torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.5)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    kept = settings_of(optimizer, 4, lambda: plateau.step(1.0))
    rates = [(each.step, each.value) for each in kept if each.what == "lr"]
    assert rates == [(0, "0.5"), (2, "0.25"), (3, "0.125")]
    assert kept[-1].location is not None
    assert kept[-1].location.file == __file__


def test_what_does_not_change_is_noted_once() -> None:
    optimizer = torch.optim.AdamW(nn.Linear(2, 1).parameters(), foreach=False)
    kept = settings_of(optimizer, 3, lambda: None)
    names = [each.what for each in kept]
    assert {"lr", "betas", "weight_decay"} <= set(names)
    assert "foreach" not in names
    assert len(names) == len(set(names))


def test_settings_of_several_groups_are_told_apart() -> None:
    layer = nn.Linear(2, 1)
    groups: list[dict[str, Any]] = [
        {"params": [layer.weight]},
        {"params": [layer.bias], "lr": 0.25},
    ]
    kept = settings_of(torch.optim.SGD(groups, lr=0.5), 1, lambda: None)
    rates = {each.what: each.value for each in kept}
    assert (rates["lr of group 0"], rates["lr of group 1"]) == ("0.5", "0.25")


def test_a_state_that_an_optimizer_is_given_is_noted_of_it_alone() -> None:
    one, other = (torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.5) for _ in range(2))
    state = one.state_dict()
    kept = settings_of(one, 2, lambda: other.load_state_dict(state))
    assert Kind.RESUMED not in [each.kind for each in kept]
    kept = settings_of(one, 2, lambda: one.load_state_dict(state))
    assert [each.step for each in kept if each.kind is Kind.RESUMED] == [1, 2]


class OwnAdam(torch.optim.Adam):
    """An optimizer of the script's own."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, lr=0.1)


def test_an_optimizer_of_ones_own_was_made_where_its_class_was_called() -> None:
    functions = Functions(lambda *_told: None)
    functions.install()
    optimizer = OwnAdam([torch.zeros(1, requires_grad=True)])
    functions.close()
    made = MADE_AT[optimizer]
    assert made is not None
    assert made.function == "test_an_optimizer_of_ones_own_was_made_where_its_class_was_called"


def test_a_rate_of_numpys_is_a_setting() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    rates = iter(np.array([0.25, 0.125], dtype=np.float32))

    def change() -> None:
        optimizer.param_groups[0]["lr"] = next(rates, np.float32(0))

    kept = settings_of(optimizer, 3, change)
    assert [each.value for each in kept if each.what == "lr"] == ["0.5", "0.25", "0.125"]
    assert all(each.was_made for each in kept)
