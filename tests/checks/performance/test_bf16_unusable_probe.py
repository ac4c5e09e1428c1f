from contextlib import suppress
from typing import Any

import torch
from contexts import context_with
from torch import Tensor, nn

from ddpcheck.check import Context, Skip
from ddpcheck.checks.performance.bf16_unusable import Facts, judge, probe, recommend
from ddpcheck.target.live import LiveTarget
from ddpcheck.target.target import Loss


def mean_square(model: nn.Module, batch: Tensor) -> Tensor:
    return torch.as_tensor(model(batch)).square().mean()


def context(module: nn.Module, loss: Loss = mean_square) -> Context:
    live = LiveTarget(
        name="test",
        is_built_in=False,
        module=module,
        model=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
        loss=loss,
        loader=[torch.linspace(-1, 1, 32).view(4, 8)],
        device="cpu",
    )
    return context_with(target=live)


class InTrainingOnly(nn.Module):
    """Gives losses in training and predictions else, as detectors do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, inputs: Tensor) -> Any:
        prediction = self.linear(inputs)
        return {"loss": prediction.square().mean()} if self.training else [prediction]


class Routed(nn.Module):
    """Writes what autocast made bfloat16 into a float32 tensor, as mixtures of experts do."""

    def __init__(self) -> None:
        super().__init__()
        self.expert = nn.Linear(8, 8)

    def forward(self, inputs: Tensor) -> Tensor:
        routed = torch.zeros_like(inputs)
        routed[inputs[:, 0] > 0] = self.expert(inputs[inputs[:, 0] > 0])
        return routed


class Overflows(nn.Module):
    """Loses its finite numbers in bfloat16 alone."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, inputs: Tensor) -> Tensor:
        made = torch.as_tensor(self.linear(inputs))
        return made * float("inf") if made.dtype == torch.bfloat16 else made


def test_a_model_that_bfloat16_suits_is_measured() -> None:
    ctx = context(nn.Linear(8, 8))
    facts = probe(ctx)
    assert facts.relative < 0.02
    assert judge({0: facts}) == []
    assert min(facts.step_s, facts.step_bf16_s) > 0
    assert ctx.target is not None
    assert all(each.grad is None for each in ctx.target.module.parameters())
    assert ctx.target.module.training


def test_a_loss_that_is_no_number_in_bfloat16_is_information() -> None:
    facts = probe(context(Overflows()))
    assert facts.loss_bf16 is None
    assert [found.severity.value for found in judge({0: facts})] == ["info"]
    assert recommend({0: facts})["precision"].value == "fp32"


def test_a_model_that_autocast_breaks_is_no_crash() -> None:
    facts = probe(context(Routed()))
    assert recommend({0: facts})["precision"].value == "fp32"


def test_a_loss_that_needs_training_mode_is_no_crash() -> None:
    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        return torch.as_tensor(model(batch)["loss"])

    outcome: Facts | None = None
    with suppress(Skip):
        outcome = probe(context(InTrainingOnly(), loss))
    assert outcome is None or outcome.step_s > 0
