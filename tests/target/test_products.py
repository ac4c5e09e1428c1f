"""The products are exact in every precision that torch has; one wrong element is seen."""

import pytest
import torch
from torch import Tensor

from ddpcheck.target.products import (
    PICKS,
    PRECISION_BITS,
    SUMS,
    TERMS_COUNT,
    TILE_COUNT,
    factors_of,
    is_steady,
    wrong_products,
)

DTYPES = list(PRECISION_BITS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_factors_and_all_partial_sums_are_held_exactly(dtype: torch.dtype) -> None:
    for factors in factors_of(dtype, seed=3):
        for factor in (factors.left, factors.right):
            assert torch.equal(factor.to(dtype).double(), factor)
        # The largest sum of magnitudes bounds every partial sum, in whatever order.
        assert (factors.left.abs() @ factors.right.abs()).max() <= 2 ** PRECISION_BITS[dtype]


def test_sums_are_exact_when_float32_is_reduced() -> None:
    sums, _ = factors_of(torch.float32, seed=0)
    for factor in (sums.left, sums.right):
        assert torch.equal(factor.bfloat16().double(), factor)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_all_bits_of_a_factor_are_tried(dtype: torch.dtype) -> None:
    _, picks = factors_of(dtype, seed=0)
    used = set(picks.left.abs().long().flatten().tolist())
    assert all(any(n >> bit & 1 for n in used) for bit in range(PRECISION_BITS[dtype]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_right_device_is_silent(dtype: torch.dtype) -> None:
    assert list(wrong_products(dtype, "cpu", tiles=2, runs=2, seed=1)) == []
    assert is_steady(dtype, "cpu", tiles=1, runs=1)


def wrong_at(monkeypatch: pytest.MonkeyPatch, row: int, column: int, value: float) -> None:
    """Let every product of float32 have one wrong element."""
    right = Tensor.__matmul__

    def multiply(left: Tensor, other: Tensor) -> Tensor:
        product: Tensor = right(left, other)
        if product.dtype is torch.float32:
            product[row, column] = value
        return product

    monkeypatch.setattr(Tensor, "__matmul__", multiply)


@pytest.mark.parametrize("value", [0.5, float("nan"), float("inf")])
def test_one_wrong_element_is_found(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    wrong_at(monkeypatch, 200, 131, value)
    found = list(wrong_products(torch.float32, "cpu", tiles=2, runs=1, seed=0))
    assert [each.factors for each in found] == [SUMS, PICKS]
    assert {(each.row, each.column, each.elements) for each in found} == {(200, 131, 1)}
    assert {each.got for each in found} == {str(value)}


def test_reduced_precision_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Tensor.__matmul__

    def multiply(left: Tensor, other: Tensor) -> Tensor:
        if left.dtype is torch.float64:
            return right(left, other)
        return right(left.bfloat16().float(), other.bfloat16().float())

    monkeypatch.setattr(Tensor, "__matmul__", multiply)
    assert list(wrong_products(torch.float32, "cpu", tiles=1, runs=1, seed=0)) == []


def test_a_product_that_changes_is_unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Tensor.__matmul__
    made: list[int] = []

    def multiply(left: Tensor, other: Tensor) -> Tensor:
        made.append(1)
        return right(left, other) + (len(made) == 3)

    monkeypatch.setattr(Tensor, "__matmul__", multiply)
    assert not is_steady(torch.float32, "cpu", tiles=1, runs=4)


def test_the_global_random_numbers_are_left_alone() -> None:
    before = torch.random.get_rng_state()
    factors_of(torch.float32, seed=0)
    is_steady(torch.float32, "cpu", tiles=1, runs=1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_shapes() -> None:
    for factors in factors_of(torch.float16, seed=0):
        assert factors.left.shape == (TILE_COUNT, TERMS_COUNT)
        assert factors.right.shape == (TERMS_COUNT, TILE_COUNT)
