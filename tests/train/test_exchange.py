"""When all ranks learn what one of them has to tell."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from ddpcheck.train.exchange import Exchange, Heard, steps_between
from ddpcheck.train.parallel import Share

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Doubled(Share):
    """Two ranks that are told alike; keeps what was summed."""

    sums: list[list[float]] = field(default_factory=list)

    def sum(self, value: Tensor) -> Tensor:
        self.sums.append(value.tolist())
        return value * 2


def talked(exchange: Exchange, step: int, *, asked: bool = False) -> Heard:
    exchange.note(step, torch.tensor(0.5 * step))
    return exchange.talk(asked=asked)


@pytest.mark.parametrize("asked_from", [1, 2, 11])
def test_all_know_at_the_exchange_after_the_one_in_which_it_was_said(asked_from: int) -> None:
    exchange = Exchange(Doubled())
    stops = next(
        step for step in range(1, 99) if talked(exchange, step, asked=step >= asked_from).is_to_stop
    )
    assert stops == asked_from + 1


def test_one_collective_brings_the_losses_of_all_steps_since_the_last() -> None:
    everyone = Doubled()
    exchange = Exchange(everyone)
    exchange.note(2, torch.tensor(1.0))
    losses = [(step, loss.item()) for step, loss in talked(exchange, 3).losses]
    assert losses == [(2, 2.0), (3, 3.0)]
    assert everyone.sums == [[0.0, 1.0, 1.5]]
    assert [step for step, _ in talked(exchange, 4).losses] == [4]


def test_exchanges_are_rare_on_a_gpu_alone() -> None:
    assert steps_between(torch.device("cuda")) > steps_between(CPU) == 1


def test_ranks_that_nobody_asks_go_on() -> None:
    exchange = Exchange(Doubled())
    assert not any(talked(exchange, step).is_to_stop for step in range(1, 50))
