import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from ddpcheck.target.builtin import seeded
from ddpcheck.target.minigpt import (
    MiniGPT,
    MiniGPTConfig,
    count_predictions,
    next_byte_loss,
    summed_next_byte_loss,
)
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.trainer import (
    PEAK_LEARNING_RATE,
    WARM_UP_STEPS,
    adamw,
    global_mean,
    learning_rate,
    replicate,
    trainer_of,
)

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


def unequal_rank(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
    batch = some_batch(7)
    share_of_batch = batch[:CUT] if rank == 0 else batch[CUT:]
    model = replicate(small_model(), recipe(gradient_as_bucket_view=True), CPU)
    summed = summed_next_byte_loss(model, share_of_batch)
    loss, share = global_mean(summed, count_predictions(share_of_batch), 2)
    loss.backward()
    dist.all_reduce(share)
    if rank == 0:
        torch.save({"gradients": gradients(model.module), "loss": share}, f"{folder}/result")
    dist.destroy_process_group()


def test_unequal_batches_on_two_ranks_give_one_process_gradient(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    ranks = [spawn.Process(target=unequal_rank, args=(rank, str(tmp_path))) for rank in (0, 1)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0]
    seen = torch.load(tmp_path / "result", weights_only=True)
    batch = some_batch(7)
    torch.testing.assert_close(seen["gradients"], one_process_gradients(batch))
    torch.testing.assert_close(seen["loss"], next_byte_loss(small_model(), batch).detach())


def test_the_mean_of_means_would_have_been_wrong() -> None:
    # The test above can tell: this is what a loss that is a mean over the rank would give.
    batch = some_batch(7)
    ranks = (one_process_gradients(batch[:CUT]), one_process_gradients(batch[CUT:]))
    means = [(one + other) / 2 for one, other in zip(*ranks, strict=True)]
    with pytest.raises(AssertionError):
        torch.testing.assert_close(means, one_process_gradients(batch))


def test_alone_the_global_mean_is_the_mean() -> None:
    summed = torch.tensor(6.0, requires_grad=True)
    loss, share = global_mean(summed, 4, 1)
    assert (loss.item(), share.item()) == (1.5, 1.5)
    assert not share.requires_grad


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_steps_lower_the_loss_in_every_precision(precision: str) -> None:
    model = seeded(lambda: MiniGPT(SMALL))
    trainer = trainer_of(model, recipe(precision=precision), CPU, steps=30, world_size=1)
    batch = some_batch(4)
    losses = [trainer.step(number, batch).item() for number in range(1, 31)]
    assert losses[-1] < losses[0] - 0.5


def test_a_step_clips_the_gradient_and_forgets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    norms: list[float] = []
    trainer = trainer_of(small_model(), recipe(), CPU, steps=3, world_size=1)

    def watched(step: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*_: Any, **__: Any) -> Any:
            norms.append(sum(float(g.square().sum()) for g in gradients(trainer.model)) ** 0.5)
            return step()

        return stepped

    monkeypatch.setattr(trainer.optimizer, "step", watched(trainer.optimizer.step))
    trainer.step(1, some_batch(4))
    assert norms[0] <= 1.0 + 1e-6
    assert all(each.grad is None for each in trainer.model.parameters())


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
