"""Layouts of the all-reduces: what is asked of the backend is what is then tried."""

import pytest
import torch

from ddpcheck.target.reduction import ASKED_SIZE, LARGE_SIZE, SMALL_SIZES, laid_out


@pytest.mark.parametrize("size", [ASKED_SIZE, *SMALL_SIZES[1:], LARGE_SIZE])
def test_a_transposed_tensor_is_dense_and_not_contiguous(size: int) -> None:
    tensor = laid_out(torch.arange(size), "transposed")
    assert not tensor.is_contiguous()
    assert tensor.t().is_contiguous()


@pytest.mark.parametrize("size", [*SMALL_SIZES, LARGE_SIZE])
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_every_value_is_in_it_and_the_input_is_left_alone(layout: str, size: int) -> None:
    values = torch.arange(size)
    tensor = laid_out(values, layout)
    flat = tensor if tensor.dim() == 1 else tensor.t().reshape(-1)
    assert torch.equal(flat[-size:], values)
    assert tensor.data_ptr() != values.data_ptr()
