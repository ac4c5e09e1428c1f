from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from contexts import context_with
from torch import nn
from torch.optim import lr_scheduler as lrs

from ddpcheck.checks.gradients.schedule_too_fast import Facts, Observer
from ddpcheck.measures.schedule import Pace
from ddpcheck.watch.lengths import batches_in
from ddpcheck.watch.schedules import Schedules, planned_steps, rises
from ddpcheck.watch.trained import Watched

Make = Callable[[torch.optim.Optimizer], Any]


class Training:
    """A loop whose events reach an observer as hooks would tell them."""

    def __init__(self, observer: Observer) -> None:
        net = nn.Linear(2, 1)
        self.observer = observer
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        # As hooks do: of the optimizer it is known when it makes a step.
        self.live = Watched(net, net, range(12), "cpu")
        observer.on_built(self.live)

    def run(self, schedulers: list[Any], steps: int, *, each: int = 1, passes: int = 1) -> Facts:
        for step in range(steps):
            for _ in range(passes):
                self.observer.on_loss(step, None)
            self.live.optimizer = self.optimizer
            self.observer.on_gradients(step)
            self.optimizer.step()
            self.observer.on_step(step)
            for scheduler in schedulers * each:
                scheduler.step()
        return self.observer.facts()


@pytest.fixture
def observer() -> Iterator[Observer]:
    observer = Observer(context_with(watches=True, world_size=2))

    def emit(event: str, *values: Any) -> None:
        assert event == "scheduled"
        observer.on_scheduled(*values)

    schedules = Schedules(emit)
    schedules.install()
    yield observer
    schedules.close()


def paces(observer: Observer, *makes: Make, steps: int = 6, **how: int) -> tuple[Pace, ...]:
    training = Training(observer)
    return training.run([make(training.optimizer) for make in makes], steps, **how).paces


def cosine(optimizer: torch.optim.Optimizer, total: int = 100) -> Any:
    return lrs.CosineAnnealingLR(optimizer, total)


def sequential(optimizer: torch.optim.Optimizer) -> Any:
    parts: list[lrs.LRScheduler] = [
        lrs.LinearLR(optimizer, 0.1, total_iters=2),
        cosine(optimizer, 8),
    ]
    return lrs.SequentialLR(optimizer, parts, milestones=[2])


def chained(optimizer: torch.optim.Optimizer) -> Any:
    return lrs.ChainedScheduler([lrs.ExponentialLR(optimizer, 0.9), cosine(optimizer, 8)])


@pytest.mark.parametrize("make", [cosine, sequential, chained])
@pytest.mark.parametrize("each", [1, 2])
def test_parts_of_a_schedule_do_not_add_up(observer: Observer, make: Make, each: int) -> None:
    (own,) = paces(observer, make, steps=5, each=each)
    assert (own.fewest, own.most) == (each, each)
    assert own.location is not None
    assert own.location.file == __file__


def test_two_schedules_of_one_optimizer_are_two(observer: Observer) -> None:
    assert [own.most for own in paces(observer, cosine, sequential)] == [1, 1]


def test_passes_are_counted_beside(observer: Observer) -> None:
    (own,) = paces(observer, cosine, each=3, passes=3)
    assert (own.per_backward, own.backwards, own.batches, own.steps) == (True, 3.0, 12, 5)


def test_a_place_that_is_told_and_a_measure_are_no_steps(observer: Observer) -> None:
    training = Training(observer)
    restarts: Any = lrs.CosineAnnealingWarmRestarts(training.optimizer, 5)
    plateau = lrs.ReduceLROnPlateau(training.optimizer)
    training.run([], 2)
    restarts.step(1.5)
    plateau.step(3.0)
    assert training.run([], 2).paces == ()
    restarts.step()
    assert len(training.run([], 2).paces) == 1


def test_the_schedule_of_another_optimizer_is_left_out(observer: Observer) -> None:
    other = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    other.step()
    assert paces(observer, lambda _: cosine(other)) == ()


@pytest.mark.parametrize(
    "make",
    [
        partial(cosine, total=6),
        partial(lrs.LambdaLR, lr_lambda=lambda step: max(0.0, 1 - step / 6)),
        partial(lrs.LinearLR, start_factor=1.0, end_factor=0.1, total_iters=6),
    ],
)
def test_steps_after_the_end_are_idle(observer: Observer, make: Make) -> None:
    (own,) = paces(observer, make, steps=10, each=2)
    assert (own.idle, own.total, own.most) == (7, 10, 2)


def test_a_warm_up_has_no_end(observer: Observer) -> None:
    (own,) = paces(observer, lambda o: lrs.LinearLR(o, 0.1, total_iters=2), steps=10)
    assert own.idle == 0


def linear(step: int, *, num_warmup_steps: int, num_training_steps: int) -> float:
    return min(step / num_warmup_steps, 1 - step / num_training_steps)


FOR_TRANSFORMERS = partial(linear, num_warmup_steps=2, num_training_steps=7)


@pytest.mark.parametrize(
    ("make", "planned", "goes_up"),
    [
        (sequential, 10, False),
        (chained, 8, False),
        (partial(lrs.LinearLR, start_factor=1.0, end_factor=0.0, total_iters=7), 7, False),
        (partial(lrs.LinearLR, total_iters=7), 7, True),
        (partial(lrs.PolynomialLR, total_iters=7), 7, False),
        (partial(lrs.OneCycleLR, max_lr=0.1, total_steps=7), 7, False),
        (partial(lrs.StepLR, step_size=7), 0, False),
        (partial(lrs.LambdaLR, lr_lambda=FOR_TRANSFORMERS), 7, False),
    ],
)
def test_plans(make: Make, planned: int, goes_up: bool) -> None:
    made = make(torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1))
    assert (planned_steps(made), rises(made)) == (planned, goes_up)


def test_torchs_own_is_put_back() -> None:
    before = [kind.step for kind in (lrs.LRScheduler, lrs.SequentialLR)]
    schedules = Schedules(lambda *_: None)
    schedules.install()
    assert lrs.LRScheduler.step is not before[0]
    schedules.close()
    assert [kind.step for kind in (lrs.LRScheduler, lrs.SequentialLR)] == before


def test_a_loader_may_not_say_how_many() -> None:
    assert (batches_in([1, 2]), batches_in(iter([]))) == (2, None)
