"""What the observer sees of losses, through the functions that scripts call."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from contexts import context_with
from torch import nn
from torch.nn import functional

from ddpcheck.check import Skip
from ddpcheck.checks.gradients.loss_denominators_differ import Facts, Observer
from ddpcheck.measures.means import Mean
from ddpcheck.watch import replicas
from ddpcheck.watch.functions import Functions
from ddpcheck.watch.replaced import Replaced
from ddpcheck.watch.stream import EventStream

Loss = Callable[[torch.Tensor], torch.Tensor]
TARGETS = torch.tensor([0, 2, -100, 1, -100])


def both(_ddp: object) -> tuple[int, int]:
    return 0, 1


@contextmanager
def observed() -> Generator[Observer]:
    """Yield an observer that hears of what the code within does."""
    observer = Observer(context_with(watches=True, world_size=2))
    stream = EventStream({"x": observer})
    functions, replaced = Functions(stream.emit), Replaced()
    functions.install()

    def tell(arguments: Any, _named: Any) -> None:
        stream.emit("loss", 0, arguments[0])

    replaced.tell_before(torch.Tensor, "backward", tell)
    try:
        yield observer
    finally:
        replaced.close()
        functions.close()
    assert stream.raised == {}


def backpropagating(loss: Loss) -> Callable[[torch.Tensor], None]:
    """Return a training with this loss."""

    def train(scores: torch.Tensor) -> None:
        loss(scores).backward()

    return train


def seen(monkeypatch: pytest.MonkeyPatch, train: Callable[[torch.Tensor], Any]) -> Facts:
    """Return what is seen of a training with these scores, [targets, classes]."""
    monkeypatch.setattr(replicas, "group_of", both)
    with observed() as observer:
        live: Any = SimpleNamespace(ddp=object())
        observer.on_built(live)
        train(torch.randn(5, 3, requires_grad=True))
    return observer.facts()


def plain(scores: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, TARGETS)


def named(scores: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(input=scores, target=TARGETS, reduction="mean")


def a_sum(scores: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, TARGETS, reduction="sum") / 3


def a_product(scores: torch.Tensor) -> torch.Tensor:
    return 2 * (functional.cross_entropy(scores, TARGETS, reduction="sum") * (1 / 3))


def masked(scores: torch.Tensor) -> torch.Tensor:
    mask = (TARGETS != -100).float()
    each = functional.cross_entropy(scores, TARGETS, reduction="none")
    return (each * mask).sum() / mask.sum().clamp(min=1.0)


def chosen(scores: torch.Tensor) -> torch.Tensor:
    return (scores.square().mean(1)[TARGETS != -100]).mean()


def chosen_by_a_loss(scores: torch.Tensor) -> torch.Tensor:
    valid = TARGETS != -100
    return functional.smooth_l1_loss(scores[valid][:, 0].contiguous(), torch.zeros(3))


def halved(scores: torch.Tensor) -> torch.Tensor:
    return 0.5 * masked(scores) / 4


def halved_before(scores: torch.Tensor) -> torch.Tensor:
    return (0.5 * functional.cross_entropy(scores, TARGETS, reduction="sum")) / 3


def divided_within(scores: torch.Tensor) -> torch.Tensor:
    mask = (TARGETS != -100).float()
    each = functional.cross_entropy(scores, TARGETS, reduction="none")
    return (each * mask / mask.sum()).sum()


def weights_divided_first(scores: torch.Tensor) -> torch.Tensor:
    valid = TARGETS != -100
    weights = valid / valid.sum()
    return (functional.cross_entropy(scores, TARGETS, reduction="none") * weights).sum()


def weights_in_bfloat16(scores: torch.Tensor) -> torch.Tensor:
    valid = (TARGETS != -100).bfloat16()
    return (scores[:, 0] * (valid / valid.sum())).sum()


def weights_first_by_rows(scores: torch.Tensor) -> torch.Tensor:
    valid = (TARGETS != -100)[:, None].expand(5, 3)
    return (valid / valid.sum() * -scores).sum(1).sum()


def by_einsum(scores: torch.Tensor) -> torch.Tensor:
    valid = (TARGETS != -100).float()
    return torch.einsum("b,b->", scores.square().mean(1), valid) / valid.sum()


def by_einsum_of_rows(scores: torch.Tensor) -> torch.Tensor:
    valid = (TARGETS != -100).float()[:, None].expand(5, 3)
    return torch.einsum("bc,bc->", scores, valid / 3)


def by_dot_of_weights(scores: torch.Tensor) -> torch.Tensor:
    valid = (TARGETS != -100).float()
    return torch.dot(scores.square().mean(1), valid / valid.sum())


def by_nanmean(scores: torch.Tensor) -> torch.Tensor:
    return scores[:, 0].where(TARGETS != -100, torch.nan).nanmean()


def of_a_list(scores: torch.Tensor) -> torch.Tensor:
    terms = [scores[at, 0].square() for at in (0, 1, 3)]
    return torch.stack(terms).mean()


def of_pieces(scores: torch.Tensor) -> torch.Tensor:
    return torch.cat([scores[0, :2], scores[3, :1]]).mean()


def of_a_list_that_is_added_up(scores: torch.Tensor) -> torch.Tensor:
    terms = [scores[at, 0].square() for at in (0, 1, 3)]
    total = terms[0] + terms[1] + terms[2]
    return total / len(terms)


def of_one_sample_s_own_weights(scores: torch.Tensor) -> torch.Tensor:
    own = torch.tensor([[1.0, 1.0, 0.0]])
    return (scores[:1] * (own / own.sum(1, keepdim=True))).sum()


def of_weights_that_differ(scores: torch.Tensor) -> torch.Tensor:
    return (scores[:, 0] * torch.tensor([0.1, 0.2, 0.3, 0.3, 0.1])).sum()


def of_heads_that_are_joined(scores: torch.Tensor) -> torch.Tensor:
    return torch.cat([scores[:, :2], scores.square()[:, :2]]).abs().mean()


def of_two_terms(scores: torch.Tensor) -> torch.Tensor:
    return (scores.square().mean() + scores.mean()) / 4


def an_old_sum(scores: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, TARGETS, size_average=False)


def by_hand(scores: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, TARGETS, reduction="none").mean()


def of_probabilities(scores: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, torch.full((5, 3), 1 / 3))


def smoothed(scores: torch.Tensor) -> torch.Tensor:
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    mean: torch.Tensor = loss(scores, TARGETS)
    return mean


def nll(scores: torch.Tensor) -> torch.Tensor:
    return functional.nll_loss(scores.log_softmax(1), TARGETS + 0, None, None, -100)


def module_of_nll(scores: torch.Tensor) -> torch.Tensor:
    mean: torch.Tensor = nn.NLLLoss()(scores.log_softmax(1), TARGETS)
    return mean


@pytest.mark.parametrize(
    "loss",
    [
        plain,
        named,
        smoothed,
        nll,
        module_of_nll,
    ],
)
def test_valid_targets_are_counted(monkeypatch: pytest.MonkeyPatch, loss: Loss) -> None:
    facts = seen(monkeypatch, backpropagating(loss))
    assert facts.means == (Mean(0, 0, 0, 5, 3, 2, 1.0),)
    (line,) = facts.lines
    assert line is not None
    assert line.file == __file__


def test_the_gradient_tells_how_the_script_weights_a_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(scores: torch.Tensor) -> None:
        loss = functional.cross_entropy(scores, TARGETS)
        loss /= 4
        (loss * 2048).backward()

    assert seen(monkeypatch, train).means == (Mean(0, 0, 0, 5, 3, 2, 512.0),)


def test_several_losses_of_a_step_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    valid = TARGETS.clamp(min=0)

    def train(scores: torch.Tensor) -> None:
        loss = scores.sum() * 0
        for targets in (TARGETS, valid):
            loss = loss + functional.cross_entropy(scores, targets)
        (loss + 3 * functional.cross_entropy(scores, valid, ignore_index=1)).backward()

    told = [(m.line, m.number, m.counted, m.gradient) for m in seen(monkeypatch, train).means]
    assert told == [(0, 0, 3, 1.0), (0, 1, 5, 1.0), (1, 0, 4, 3.0)]


@pytest.mark.parametrize(
    ("loss", "gradient"),
    [
        (a_sum, 1.0),
        (a_product, 2.0),
        (masked, 1.0),
        (halved, 0.125),
        (halved_before, 0.5),
        (divided_within, 1.0),
        (chosen, 1.0),
        (chosen_by_a_loss, 1.0),
        (weights_divided_first, 1.0),
        (weights_in_bfloat16, 1.0),
        (by_einsum, 1.0),
        (by_dot_of_weights, 1.0),
        (by_nanmean, 1.0),
        (of_a_list, 1.0),
        (of_pieces, 1.0),
        (of_a_list_that_is_added_up, 1.0),
    ],
)
def test_means_of_a_script_s_own_are_counted(
    monkeypatch: pytest.MonkeyPatch, loss: Loss, gradient: float
) -> None:
    facts = seen(monkeypatch, backpropagating(loss))
    (mean,) = facts.means
    assert (mean.step, mean.counted, mean.by_hand) == (0, 3, True)
    assert mean.gradient == pytest.approx(gradient)
    (line,) = facts.lines
    assert line is not None
    assert line.file == __file__


def test_means_that_are_computed_otherwise_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_more(scores: torch.Tensor) -> torch.Tensor:
        return a_sum(scores) + scores.sum() / 7

    (alone,) = seen(monkeypatch, backpropagating(a_sum)).means
    numbers = {m.counted: m.number for m in seen(monkeypatch, backpropagating(with_more)).means}
    assert sorted(numbers) == [3, 7]
    assert alone.number not in numbers.values()


def test_micro_batches_of_a_step_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(scores: torch.Tensor) -> None:
        a_sum(scores).backward()
        a_sum(scores).backward()

    first, second = (mean.number for mean in seen(monkeypatch, train).means)
    assert second == first + 1


@pytest.mark.parametrize(("counts", "told"), [((2, 3), []), ((3, 3), [3, 3])])
def test_means_of_each_sample_are_right(
    monkeypatch: pytest.MonkeyPatch, counts: tuple[int, ...], told: list[int]
) -> None:
    def train(scores: torch.Tensor) -> None:
        samples = zip(scores, counts, strict=False)
        losses = [sample.square().sum() / count for sample, count in samples]
        (losses[0] + losses[1] + scores.abs().sum() / 5).backward()

    counted = [mean.counted for mean in seen(monkeypatch, train).means]
    assert sorted(counted) == sorted([*told, 5])


def test_a_step_that_ddp_does_not_average_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "group_of", both)
    live: Any = SimpleNamespace(ddp=SimpleNamespace(require_backward_grad_sync=False))
    with observed() as observer:
        for each in (observer, *observer.parts):
            each.on_built(live)
        for step, syncs in enumerate((False, True)):
            live.ddp.require_backward_grad_sync = syncs
            backpropagating(a_sum)(torch.randn(5, 3, requires_grad=True))
            observer.parts[0].on_step(step)
    assert len(observer.facts().means) == 1


def test_a_loss_that_is_weighted_is_no_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    def weighted(scores: torch.Tensor) -> torch.Tensor:
        return 0.3 * scores.sum() + scores.square().sum() / 0.7

    with pytest.raises(Skip, match="no mean"):
        seen(monkeypatch, backpropagating(weighted))


def test_weights_are_counted_through_sums_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    (mean,) = seen(monkeypatch, backpropagating(weights_first_by_rows)).means
    assert (mean.counted, mean.gradient) == (9, 1.0)


@pytest.mark.parametrize(
    "loss",
    [
        an_old_sum,
        by_hand,
        of_probabilities,
        by_einsum_of_rows,
        of_one_sample_s_own_weights,
        of_weights_that_differ,
        of_heads_that_are_joined,
        of_two_terms,
    ],
)
@pytest.mark.filterwarnings("ignore:size_average")
def test_what_is_no_mean_over_targets_is_left_out(
    monkeypatch: pytest.MonkeyPatch, loss: Loss
) -> None:
    with pytest.raises(Skip, match="no mean"):
        seen(monkeypatch, backpropagating(loss))


def test_what_is_never_backpropagated_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(scores: torch.Tensor) -> None:
        functional.cross_entropy(scores, TARGETS)  # a metric
        with torch.no_grad():
            functional.cross_entropy(scores, TARGETS)
        scores.sum().backward()

    with pytest.raises(Skip, match="no mean"):
        seen(monkeypatch, evaluate)


def test_steps_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "group_of", both)
    live: Any = SimpleNamespace(ddp=object())
    with observed() as observer:
        observer.on_built(live)
        for step in range(3):
            functional.cross_entropy(torch.randn(5, 3, requires_grad=True), TARGETS).backward()
            observer.parts[0].on_step(step)
    assert [(m.step, m.number) for m in observer.facts().means] == [(0, 0), (1, 0), (2, 0)]


def test_sharded_models_average_as_well() -> None:
    scores = torch.randn(5, 3, requires_grad=True)
    with observed() as observer:
        observer.on_sharded(nn.Linear(1, 1), None, None)
        functional.cross_entropy(scores, TARGETS).backward()
    assert observer.facts().group == (0, 1)


def test_without_a_model_of_several_ranks_it_is_a_skip() -> None:
    with pytest.raises(Skip, match="were averaged"):
        Observer(context_with(watches=True)).facts()
    with pytest.raises(Skip, match="ddpcheck watch"):
        Observer(context_with()).facts()


def test_numerics_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = torch.randn(5, 3, requires_grad=True)
    functional.cross_entropy(scores, TARGETS).backward()
    plain, scores.grad = scores.grad, None
    state = torch.get_rng_state()

    def train(_other: torch.Tensor) -> None:
        torch.set_rng_state(state)
        functional.cross_entropy(scores, TARGETS).backward()
        assert torch.equal(torch.get_rng_state(), state)

    seen(monkeypatch, train)
    assert plain is not None
    assert scores.grad is not None
    assert torch.equal(plain, scores.grad)
