from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor

from ddpcheck.errors import ExitCode
from ddpcheck.target.builtin import seeded
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig
from ddpcheck.train.loop import Alongside, is_point, train
from ddpcheck.train.manifest import Past
from ddpcheck.train.parallel import Place
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.speed import Stopwatch, single_rank_tokens_per_s
from ddpcheck.train.strategies import single
from ddpcheck.train.together import EveryRankError
from ddpcheck.train.trainer import Trainer, trainer_of

CPU = torch.device("cpu")
ALONE = Place(Recipe(strategy="single", backend="gloo", device="cpu"), CPU)


def small_model() -> MiniGPT:
    return seeded(lambda: MiniGPT(MiniGPTConfig(block=8, layers=1, heads=2, width=16)))


def trainer(steps: int) -> Trainer:
    return trainer_of(single.build(small_model(), ALONE), ALONE, steps)


def batches() -> Iterator[tuple[int, Tensor]]:
    batch = torch.randint(256, (4, 9), generator=torch.Generator().manual_seed(1))
    for number in range(100):
        yield number // 5, batch


def saver(**changes: Any) -> tuple[list[Past], Alongside]:
    saved: list[Past] = []
    return saved, Alongside(saved.append, **changes)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_short_run_has_every_step_on_its_curve_and_one_checkpoint(steps: int) -> None:
    saved, alongside = saver()
    past = train(trainer(steps), batches(), alongside)
    assert [step for step, _ in past.loss] == list(range(1, steps + 1))
    assert saved == [past]
    assert past.tokens_per_s > 0


def test_a_long_run_is_saved_on_the_way_and_at_its_end() -> None:
    saved, alongside = saver(save_every=10)
    past = train(trainer(23), batches(), alongside)
    assert [each.step for each in saved] == [10, 20, 23]
    assert saved[0].loss == past.loss[:10]
    assert past.loss[-1][1] < past.loss[0][1]


def asked_in(step: int) -> Callable[[], bool]:
    calls = count(1)
    return lambda: next(calls) == step


def test_a_run_that_is_asked_stops_a_step_later_once_it_is_saved() -> None:
    saved, alongside = saver(save_every=12, asked_to_stop=asked_in(11))
    past = train(trainer(20), batches(), alongside)
    assert saved == [past]
    assert past.step == len(past.loss) == 12


def test_a_run_that_is_asked_in_its_last_step_is_at_its_end() -> None:
    saved, alongside = saver(asked_to_stop=asked_in(20))
    assert train(trainer(20), batches(), alongside).step == 20
    assert len(saved) == 1


def test_a_run_that_goes_on_has_the_whole_curve_and_the_time_of_both_parts() -> None:
    expected = train(trainer(20), batches(), saver()[1])
    stopped_and_going, data = trainer(20), batches()
    stopped = train(stopped_and_going, data, saver(asked_to_stop=asked_in(11))[1])
    past = train(stopped_and_going, data, saver()[1], stopped)
    assert past.loss == expected.loss
    assert past.timed_s > stopped.timed_s > 0
    # Four steps, of four sequences, of eight bytes: of those left, half are to warm up.
    assert past.timed_tokens == stopped.timed_tokens + 4 * 4 * 8


def test_a_run_that_was_at_its_end_has_nothing_to_do() -> None:
    past = train(trainer(3), batches(), saver()[1])
    saved, alongside = saver()
    assert train(trainer(3), iter(()), alongside, past) == past
    assert not saved


@pytest.mark.parametrize("steps", [1, 199, 200, 201, 300, 399, 12_345])
def test_the_curve_has_both_ends_and_at_most_200_points(steps: int) -> None:
    points = [step for step in range(1, steps + 1) if is_point(step, steps)]
    assert (points[0], points[-1]) == (1, steps)
    assert len(points) <= 200


def test_a_loss_that_is_no_number_ends_the_run_and_is_not_saved() -> None:
    diverged = trainer(3)
    with torch.no_grad():
        next(diverged.parallel.model.parameters()).fill_(float("nan"))
    saved, alongside = saver()
    with pytest.raises(EveryRankError, match="nan at step 3") as caught:
        train(diverged, batches(), alongside)
    assert caught.value.exit_code is ExitCode.FINDINGS
    assert not saved


def test_one_rank_alone_trains_a_copy() -> None:
    model = small_model()
    before = [each.clone() for each in model.parameters()]
    assert single_rank_tokens_per_s(model, batches(), ALONE) > 0
    assert all(
        torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True)
    )


def test_a_stopwatch_counts_only_while_it_runs() -> None:
    readings = iter([1.0, 3.0, 10.0, 10.5])
    watch = Stopwatch(CPU, lambda: next(readings))
    for _ in range(2):
        watch.start()
        watch.stop()
    assert watch.total_s == 2.5


def test_a_stopwatch_is_paused_only_if_it_runs() -> None:
    readings = iter([1.0, 3.0, 10.0, 10.5])
    watch = Stopwatch(CPU, lambda: next(readings), total_s=1.0)
    with watch.paused():
        pass
    watch.start()
    with watch.paused():
        assert watch.total_s == 3.0
    watch.stop()
    assert watch.total_s == 3.5
