"""When all ranks learn that one of them is to stop."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from ddpcheck.train.parallel import Share
from ddpcheck.train.stop_vote import StopVote, steps_between

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Counted(Share):
    """Ranks of which the others ask for nothing; counts the sums."""

    sums: list[float] = field(default_factory=list)

    def sum(self, value: Tensor) -> Tensor:
        self.sums.append(float(value))
        return value.clone()


def stops_at(vote: StopVote, asked_from: int) -> int:
    return next(step for step in range(1, 99) if vote.is_to_stop(step, asked=step >= asked_from))


@pytest.mark.parametrize(
    ("every", "asked_from", "stops"),
    [(1, 11, 12), (4, 1, 8), (4, 4, 8), (4, 5, 12), (4, 8, 12)],
)
def test_all_know_at_the_vote_after_the_one_in_which_it_was_said(
    every: int, asked_from: int, stops: int
) -> None:
    everyone = Counted()
    assert stops_at(StopVote(everyone, CPU, every), asked_from) == stops
    assert len(everyone.sums) == stops // every


def test_votes_are_rare_on_a_gpu_alone() -> None:
    assert steps_between(torch.device("cuda")) > steps_between(CPU) == 1


def test_ranks_that_nobody_asks_go_on() -> None:
    vote = StopVote(Counted(), CPU, 1)
    assert not any(vote.is_to_stop(step, asked=False) for step in range(1, 50))
