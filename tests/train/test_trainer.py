from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

from ddpcheck.target.builtin import seeded
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, count_predictions, next_byte_loss
from ddpcheck.testing.world import World
from ddpcheck.train.optimizer import PEAK_LEARNING_RATE, WARM_UP_STEPS, adamw, learning_rate
from ddpcheck.train.parallel import Place, Share
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.strategies import ddp, single
from ddpcheck.train.trainer import Trainer, trainer_of

SMALL = MiniGPTConfig(block=8, layers=1, heads=2, width=16)
CPU = torch.device("cpu")
# Rank 0 has five blocks, rank 1 two: the mean of the means would weigh rank 1 too much.
CUT = 5


def small_model() -> MiniGPT:
    return seeded(lambda: MiniGPT(SMALL)).double()


def some_batch(size: int) -> Tensor:
    return torch.randint(256, (size, 9), generator=torch.Generator().manual_seed(1))


def recipe(**changes: Any) -> Recipe:
    return msgspec.structs.replace(Recipe(strategy="ddp", backend="gloo", device="cpu"), **changes)


def gradients(model: nn.Module) -> list[Tensor]:
    found = [each.grad for each in model.parameters() if each.grad is not None]
    assert found
    return found


def one_process_gradients(batch: Tensor) -> list[Tensor]:
    model = small_model()
    next_byte_loss(model, batch).backward()
    return gradients(model)


@pytest.mark.ranks(2)
def test_unequal_batches_on_two_ranks_give_one_process_gradient(ddpcheck_world: World) -> None:
    batch = some_batch(7)
    share_of_batch = batch[:CUT] if ddpcheck_world.rank == 0 else batch[CUT:]
    everyone = Share(ddpcheck_world.rank, ddpcheck_world.size, ddpcheck_world.group)
    place = Place(recipe(gradient_as_bucket_view=True), CPU, everyone)
    replica = ddp.build(small_model(), place)
    total = everyone.sum(torch.tensor(count_predictions(share_of_batch)))
    part = replica.backward(share_of_batch, total, lambda loss: loss)
    torch.testing.assert_close(gradients(replica.model), one_process_gradients(batch))
    whole = next_byte_loss(small_model(), batch).detach()
    torch.testing.assert_close(everyone.sum(part), whole)


def test_the_mean_of_means_would_have_been_wrong() -> None:
    # The test above can tell: this is what a loss that is a mean over the rank would give.
    batch = some_batch(7)
    ranks = (one_process_gradients(batch[:CUT]), one_process_gradients(batch[CUT:]))
    means = [(one + other) / 2 for one, other in zip(*ranks, strict=True)]
    with pytest.raises(AssertionError):
        torch.testing.assert_close(means, one_process_gradients(batch))


def trainer(model: MiniGPT, steps: int, **changes: Any) -> Trainer:
    place = Place(recipe(**changes), CPU)
    return trainer_of(single.build(model, place), place, steps)


@pytest.mark.parametrize("pieces", [2, 3])
def test_micro_batches_give_the_gradient_of_the_whole(pieces: int) -> None:
    batch = some_batch(7)
    in_pieces = trainer(small_model(), 1, micro_batches=pieces)
    part = in_pieces.parallel.backward(batch, torch.tensor(56), lambda loss: loss)
    torch.testing.assert_close(gradients(in_pieces.parallel.model), one_process_gradients(batch))
    torch.testing.assert_close(part, next_byte_loss(small_model(), batch).detach())


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_steps_lower_the_loss_in_every_precision(precision: str) -> None:
    alone = trainer(seeded(lambda: MiniGPT(SMALL)), 30, precision=precision)
    batch = some_batch(4)
    losses = [alone.step(number, batch).loss.item() for number in range(1, 31)]
    assert losses[-1] < losses[0] - 0.5


def test_a_step_clips_the_gradient_and_forgets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    norms: list[float] = []
    alone = trainer(small_model(), 3)

    def watched(step: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*_: Any, **__: Any) -> Any:
            norms.append(
                sum(float(g.square().sum()) for g in gradients(alone.parallel.model)) ** 0.5
            )
            return step()

        return stepped

    optimizer = alone.parallel.optimizer
    monkeypatch.setattr(optimizer, "step", watched(optimizer.step))
    alone.step(1, some_batch(4))
    assert norms[0] <= 1.0 + 1e-6
    assert all(each.grad is None for each in alone.parallel.model.parameters())


def test_the_rate_rises_then_falls() -> None:
    rates = [learning_rate(step, 300) for step in range(1, 301)]
    peak = WARM_UP_STEPS - 1
    assert rates[peak] == max(rates) == PEAK_LEARNING_RATE
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[0] > 0
    assert rates[-1] == pytest.approx(PEAK_LEARNING_RATE / 10)


@pytest.mark.parametrize("steps", [1, 2, 3, 15])
def test_a_short_run_has_rates_too(steps: int) -> None:
    assert all(0 < learning_rate(step, steps) <= PEAK_LEARNING_RATE for step in range(1, steps + 1))


def test_only_matrices_decay_and_nothing_is_left_out() -> None:
    model = small_model()
    decaying, others = adamw(model).param_groups
    assert {each.dim() for each in decaying["params"]} == {2}
    assert {each.dim() for each in others["params"]} == {1}
    assert others["weight_decay"] == 0
    assert len(decaying["params"]) + len(others["params"]) == len(list(model.parameters()))
