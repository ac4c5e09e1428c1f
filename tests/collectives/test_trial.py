"""Layouts in memory: what is asked of the backend is what is then tried."""

import pytest
import torch

from ddpcheck.collectives.cases import LARGE_SIZES, SMALL_SIZES
from ddpcheck.collectives.trial import laid_out

SIZES = [*SMALL_SIZES[2:], LARGE_SIZES[True]]  # fewer elements are contiguous in every layout


@pytest.mark.parametrize("size", SIZES)
def test_a_transposed_tensor_is_dense_and_not_contiguous(size: int) -> None:
    tensor = laid_out(torch.arange(size), "transposed")
    assert not tensor.is_contiguous()
    assert tensor.t().is_contiguous()


@pytest.mark.parametrize("size", SIZES)
def test_an_unaligned_tensor_begins_within_its_memory(size: int) -> None:
    tensor = laid_out(torch.arange(size), "unaligned")
    assert tensor.storage_offset() == 1
    assert torch.equal(tensor, torch.arange(size))
