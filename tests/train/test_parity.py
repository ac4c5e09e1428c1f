"""Traces that are made up: which differences are let pass, and which are named."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from ddpcheck.train.optimizer import adamw, adamw_by_the_book, learning_rate
from ddpcheck.train.parity import Difference, Reference
from ddpcheck.train.trace import Step, Trace

STEPS = 4
SHAPES = {"matrix": (8, 6), "bias": (6,)}


def trace(error: float = 0.0, seed: int = 1) -> Trace:
    """Return a training on given gradients, each of whose values is off by about ``error``."""
    errors = torch.Generator().manual_seed(seed)
    steps: list[Step] = []
    for number in range(1, STEPS + 1):
        gradients = {
            name: each * (1 + error * drawn(each.shape, errors))
            for name, each in clean_gradients(number).items()
        }
        loss = 5.0 - number / 10 + error
        steps.append(Step(learning_rate(number, STEPS), loss, 1.0 + error, gradients, {}))
    return trained(steps)


def clean_gradients(number: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(number)
    return {name: drawn(shape, random) for name, shape in SHAPES.items()}


def trained(steps: list[Step]) -> Trace:
    """Return the training that follows from the gradients of its steps."""
    random = torch.Generator().manual_seed(7)
    start = {name: drawn(shape, random) for name, shape in SHAPES.items()}
    rates = [step.rate for step in steps]
    later = {
        name: list(adamw_by_the_book(first, [step.gradients[name] for step in steps], rates))
        for name, first in start.items()
    }
    every = [start, *({name: later[name][at] for name in SHAPES} for at in range(STEPS))]
    steps = [replace(step, weights=weights) for step, weights in zip(steps, every, strict=False)]
    return Trace(tuple(steps), every[-1])


def drawn(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def exact(number: int, _weights: Mapping[str, Tensor]) -> Step:
    return trace().steps[number - 1]


def reference(error: float = 1e-7, precision: str = "fp32") -> Reference:
    return Reference(trace(error), exact, precision, predictions=100)


def with_gradient(step: int, name: str, factor: float) -> Trace:
    """Return a training in which one gradient of one step is another by a factor."""
    steps = list(trace(1e-7, seed=2).steps)
    wrong = {**steps[step].gradients, name: steps[step].gradients[name] * factor}
    steps[step] = replace(steps[step], gradients=wrong)
    return trained(steps)


def broken(strategy: Trace) -> Difference:
    found = reference().compare(strategy).broken
    assert found is not None
    return found


def test_another_rounding_passes() -> None:
    parity = reference().compare(trace(1e-7, seed=2))
    assert parity.broken is None
    kinds = {"reference", "loss", "norm", "gradient", "weights"}
    assert set(parity.worst) == kinds
    assert all(0 < each.bound < 1e-3 for each in parity.worst.values())


def test_the_first_step_and_parameter_that_differ_are_named() -> None:
    found = broken(with_gradient(2, "bias", 1.0001))
    assert (found.kind, found.step, found.name) == ("gradient", 3, "bias")
    assert found.relative == pytest.approx(1e-4, rel=0.01)


def test_of_all_gradients_that_clipping_makes_wrong_the_farthest_off_is_suspected() -> None:
    seen = with_gradient(0, "bias", 1.5)
    first = seen.steps[0]
    clipped = {name: each * 0.9 for name, each in first.gradients.items()}
    wrong = replace(first, norm=first.norm * 1.1, gradients=clipped)
    parity = reference().compare(replace(seen, steps=(wrong, *seen.steps[1:])))
    assert parity.broken is not None
    assert parity.suspect is not None
    assert (parity.broken.kind, parity.broken.step) == ("norm", 1)
    assert (parity.suspect.kind, parity.suspect.step, parity.suspect.name) == (
        "gradient",
        1,
        "bias",
    )


@pytest.mark.parametrize("kind", ["loss", "norm"])
def test_a_number_that_differs_is_named_with_its_step(kind: str) -> None:
    seen = trace(1e-7, seed=2)
    second = replace(seen.steps[1], **{kind: getattr(seen.steps[1], kind) + 1e-3})
    found = broken(replace(seen, steps=(seen.steps[0], second, *seen.steps[2:])))
    assert (found.kind, found.step, found.name) == (kind, 2, "")


def test_a_loss_that_one_process_hit_by_chance_is_no_bound() -> None:
    lucky = replace(reference(), one=trace())
    assert lucky.compare(trace(1e-7, seed=2)).broken is None


def test_weights_that_do_not_follow_from_the_gradients_are_named_with_their_step() -> None:
    seen = trace(1e-7, seed=2)
    third = {**seen.steps[2].weights, "bias": seen.steps[1].weights["bias"]}
    steps = (*seen.steps[:2], replace(seen.steps[2], weights=third), seen.steps[3])
    found = broken(replace(seen, steps=steps))
    assert (found.kind, found.step, found.name) == ("weights", 2, "bias")
    found = broken(replace(seen, after={**seen.after, "bias": seen.steps[0].weights["bias"]}))
    assert (found.kind, found.step, found.name) == ("weights", STEPS, "bias")
    assert found.relative == pytest.approx(1.0, rel=0.01)


def test_other_weights_than_the_seeded_ones_are_found_in_the_first_step() -> None:
    seen = trace(1e-7, seed=2)
    moved = [{**weights, "matrix": weights["matrix"] + 1e-3} for weights in seen.weights]
    steps = [replace(step, weights=own) for step, own in zip(seen.steps, moved, strict=False)]
    found = broken(Trace(tuple(steps), moved[-1]))
    assert (found.kind, found.step, found.name) == ("weights", 1, "matrix")


def test_each_step_is_compared_where_the_strategy_is() -> None:
    asked: list[tuple[int, Mapping[str, Tensor]]] = []

    def watched(number: int, weights: Mapping[str, Tensor]) -> Step:
        asked.append((number, weights))
        return exact(number, weights)

    seen = trace(1e-7, seed=2)
    compared = replace(reference(), exact=watched)
    compared.compare(seen)
    own, of_the_strategy = asked[:STEPS], asked[STEPS:]
    assert [number for number, _ in own] == [1, 2, 3, 4]
    assert all(own[at][1] is step.weights for at, step in enumerate(compared.one.steps))
    # Both begin at the same weights.
    assert [number for number, _ in of_the_strategy] == [2, 3, 4]
    assert all(of_the_strategy[at][1] is seen.steps[at + 1].weights for at in range(3))


def test_what_is_no_number_does_not_pass() -> None:
    found = broken(with_gradient(0, "matrix", float("nan")))
    assert (found.kind, found.step, found.name) == ("gradient", 1, "matrix")
    assert found.ratio == float("inf")


def test_one_process_that_is_wrong_itself_excuses_nothing() -> None:
    seen = trace()
    steps = [replace(step, norm=step.norm * 4096) for step in seen.steps]
    wrong = replace(seen, steps=tuple(steps))
    found = Reference(wrong, exact, "fp16", predictions=100).compare(wrong).broken
    assert found is not None
    assert (found.kind, found.step, found.name) == ("reference", 1, "norm")


def test_half_precision_has_wider_bounds() -> None:
    seen = with_gradient(2, "bias", 1.002)
    assert broken(seen).kind == "gradient"
    assert reference(1e-3, "bf16").compare(seen).broken is None


def test_adamw_by_the_book_is_torchs() -> None:
    model = nn.Linear(6, 8).double()
    optimizer = adamw(model)
    before = [each.detach().clone() for each in model.parameters()]
    random = torch.Generator().manual_seed(1)
    gradients = [[drawn(each.shape, random) for each in before] for _ in range(STEPS)]
    rates = [learning_rate(number, STEPS) for number in range(1, STEPS + 1)]
    for rate, ones in zip(rates, gradients, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        for parameter, one in zip(model.parameters(), ones, strict=True):
            parameter.grad = one
        optimizer.step()
    for number, parameter in enumerate(model.parameters()):
        made = list(adamw_by_the_book(before[number], [ones[number] for ones in gradients], rates))
        assert len(made) == STEPS
        torch.testing.assert_close(parameter.detach(), made[-1])
