from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from ddpcheck.errors import ExitCode
from ddpcheck.target.builtin import seeded
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig
from ddpcheck.train.loop import Save, is_point, train
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.speed import Stopwatch, single_rank_tokens_per_s
from ddpcheck.train.together import EveryRankError
from ddpcheck.train.trainer import Trainer, trainer_of

CPU = torch.device("cpu")
RECIPE = Recipe(strategy="ddp", backend="gloo", device="cpu")


def small_model() -> MiniGPT:
    return seeded(lambda: MiniGPT(MiniGPTConfig(block=8, layers=1, heads=2, width=16)))


def trainer(steps: int) -> Trainer:
    return trainer_of(small_model(), RECIPE, CPU, steps, world_size=1)


def batches() -> Iterator[tuple[int, Tensor]]:
    batch = torch.randint(256, (4, 9), generator=torch.Generator().manual_seed(1))
    for number in range(100):
        yield number // 5, batch


def saver() -> tuple[list[tuple[int, int]], Save]:
    saved: list[tuple[int, int]] = []

    def save(step: int, epoch: int) -> None:
        saved.append((step, epoch))

    return saved, save


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_short_run_has_every_step_on_its_curve_and_one_checkpoint(steps: int) -> None:
    saved, save = saver()
    history = train(trainer(steps), batches(), save)
    assert [step for step, _ in history.loss] == list(range(1, steps + 1))
    assert saved == [(steps, (steps - 1) // 5)]
    assert history.tokens_per_s > 0


def test_a_long_run_is_saved_on_the_way_and_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddpcheck.train.loop.CHECKPOINT_STEPS", 10)
    saved, save = saver()
    history = train(trainer(23), batches(), save)
    assert saved == [(10, 1), (20, 3), (23, 4)]
    assert history.loss[-1][1] < history.loss[0][1]


@pytest.mark.parametrize("steps", [1, 199, 200, 201, 300, 399, 12_345])
def test_the_curve_has_both_ends_and_at_most_200_points(steps: int) -> None:
    points = [step for step in range(1, steps + 1) if is_point(step, steps)]
    assert (points[0], points[-1]) == (1, steps)
    assert len(points) <= 200


def test_a_loss_that_is_no_number_ends_the_run_and_is_not_saved() -> None:
    diverged = trainer(3)
    with torch.no_grad():
        next(diverged.model.parameters()).fill_(float("nan"))
    saved, save = saver()
    with pytest.raises(EveryRankError, match="nan at step 3") as caught:
        train(diverged, batches(), save)
    assert caught.value.exit_code is ExitCode.FINDINGS
    assert not saved


def test_one_rank_alone_trains_a_copy() -> None:
    model = small_model()
    before = [each.clone() for each in model.parameters()]
    assert single_rank_tokens_per_s(model, batches(), RECIPE, CPU) > 0
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
