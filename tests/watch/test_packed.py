"""What is read of a loss within a checkpoint: nothing that would compute it anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from ddpcheck.watch.packed import PACKED
from ddpcheck.watch.quotients import quotients
from ddpcheck.watch.replaced import Replaced

MASK = torch.tensor([1.0, 1.0, 0.0, 1.0])


@pytest.fixture(autouse=True)
def hearing() -> Iterator[None]:
    replaced = Replaced()
    PACKED.watch(replaced)
    try:
        yield
    finally:
        replaced.close()


class Chunk:
    """A part of a loss, that counts how often it is computed."""

    def __init__(self, divisor: float) -> None:
        self.calls = 0
        self._divisor = divisor

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return (scores.square() * MASK / self._divisor).sum()


def of_a_checkpoint(chunk: Chunk, scores: torch.Tensor) -> torch.Tensor:
    value: torch.Tensor = checkpoint(chunk, scores, use_reentrant=False)
    return value


@pytest.mark.parametrize("divisor", [1.0, 3.0])
def test_a_checkpoint_is_not_computed_anew(divisor: float) -> None:
    chunk = Chunk(divisor)
    loss = of_a_checkpoint(chunk, torch.ones(4, requires_grad=True))
    assert list(quotients(loss)) == []
    assert chunk.calls == 1
    loss.backward()
    assert chunk.calls == 2


def test_what_is_divided_after_it_is_known() -> None:
    chunk = Chunk(1.0)
    (found,) = quotients(of_a_checkpoint(chunk, torch.ones(4, requires_grad=True)) / MASK.sum())
    assert found.count is not None
    assert float(found.count.number) == 3.0
    assert chunk.calls == 1


def test_what_is_made_before_or_after_is_read() -> None:
    before = Chunk(3.0)(torch.ones(4, requires_grad=True))
    between = of_a_checkpoint(Chunk(3.0), torch.ones(4, requires_grad=True))
    after = Chunk(3.0)(torch.ones(4, requires_grad=True))
    assert [len(list(quotients(each))) for each in (before, between, after)] == [1, 0, 1]


def test_within_an_open_context_nothing_is_read() -> None:
    with torch.autograd.graph.save_on_cpu():
        loss = Chunk(3.0)(torch.ones(4, requires_grad=True))
        assert list(quotients(loss)) == []
