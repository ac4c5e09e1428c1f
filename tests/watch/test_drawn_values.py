"""Which numbers look as if a generator had drawn them."""

import pytest
import torch

from ddpcheck.watch.drawn_values import look_drawn

DRAWS = torch.Generator().manual_seed(3)


def batches(*columns: torch.Tensor) -> list[list[torch.Tensor]]:
    """Return four batches of each tensor, whose first dimension is cut."""
    parts = [each.flatten().chunk(4) for each in columns]
    return [list(each) for each in zip(*parts, strict=True)]


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(torch.randn(32, 16, generator=DRAWS), id="normal"),
        pytest.param(torch.rand(32, 3, 8, 8, generator=DRAWS), id="uniform"),
        pytest.param(torch.randint(1000, (32, 64), generator=DRAWS), id="words that are as likely"),
        pytest.param(torch.randint(10, (256,), generator=DRAWS), id="classes"),
        pytest.param(torch.arange(32.0), id="too few"),
        pytest.param(torch.full((256,), torch.nan), id="no numbers"),
    ],
)
def test_drawn(column: torch.Tensor) -> None:
    assert look_drawn(batches(column))


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(torch.rand(4096, generator=DRAWS).pow(3).mul(64).long(), id="letters"),
        pytest.param(torch.randn(4096, generator=DRAWS).cumsum(0), id="a signal"),
        pytest.param(torch.rand(64, 64, generator=DRAWS).repeat_interleave(4, 1), id="pixels"),
    ],
)
def test_read(column: torch.Tensor) -> None:
    assert not look_drawn(batches(column))
    assert not look_drawn(batches(torch.randint(10, (256,), generator=DRAWS), column))


def test_what_is_the_same_in_each_batch_tells_nothing() -> None:
    places = torch.arange(64).repeat(4)
    assert look_drawn(batches(places, torch.randint(50, (1024,), generator=DRAWS)))
