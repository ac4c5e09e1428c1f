from collections.abc import Callable, Sequence
from functools import cache

import pytest
import torch

from ddpcheck.collectives.exact import contribution, expected, tolerance

OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX")
COUNTED = ("SUM", "AVG", "PRODUCT")
EXTREMES = ("MIN", "MAX")
WORLDS = (*range(1, 71), 128, 1024)
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.uint8)
# Where every rank has counted: it does somewhere in as many elements as there are ranks.
EXTRA = 67


@cache
def all_inputs(op: str, world: int, size: int) -> torch.Tensor:
    """Return what all ranks put in, int64 [world, size], in a random order of the ranks."""
    order = torch.randperm(world, generator=torch.Generator().manual_seed(world)).tolist()
    return torch.stack([contribution(op, rank, world, size) for rank in order])


def inputs(op: str, world: int, size: int) -> torch.Tensor:
    """Return the same, made once for all tests that ask for little: sizes share a beginning."""
    op = "SUM" if op == "AVG" else op
    return all_inputs(op, world, max(size, world + EXTRA))[:, :size]


def reduced(op: str, rows: torch.Tensor, world: int) -> torch.Tensor:
    """Return the result of these contributions to a reduction among ``world`` ranks."""
    if op == "SUM":
        return rows.sum(dim=0)
    if op == "AVG":
        return rows.sum(dim=0).double() / world
    if op == "PRODUCT":
        return rows.prod(dim=0)
    return rows.amin(dim=0) if op == "MIN" else rows.amax(dim=0)


def each_left_out(op: str, rows: torch.Tensor) -> torch.Tensor:
    """Return [world, size]: what is left of the result without the contribution of one rank."""
    if op == "PRODUCT":
        return torch.stack([reduced(op, rows, 1)] * len(rows)) // rows
    if op in EXTREMES:
        best, second = rows.sort(dim=0, descending=op == "MAX").values[:2]
        return torch.where((rows == best) & (best != second), second, best)
    left = rows.sum(dim=0) - rows
    return left.double() / len(rows) if op == "AVG" else left


def each_twice(op: str, rows: torch.Tensor) -> torch.Tensor:
    """Return [world, size]: the result with the contribution of one rank counted twice."""
    if op == "PRODUCT":
        return rows.prod(dim=0) * rows
    total = rows.sum(dim=0) + rows
    return total.double() / len(rows) if op == "AVG" else total


@pytest.mark.parametrize("op", OPS)
def test_what_is_expected_is_what_a_reduction_gives(op: str) -> None:
    for world in WORLDS:
        result = reduced(op, inputs(op, world, world + EXTRA), world)
        assert result.tolist() == pytest.approx(expected(op, world, world + EXTRA).tolist()), world


def test_sums_and_averages_have_the_same_inputs() -> None:
    for world in (1, 3, 70):
        average = contribution("AVG", world - 1, world, 500)
        assert torch.equal(average, contribution("SUM", world - 1, world, 500))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("world", [1, 2, 3, 70])
def test_a_shorter_tensor_is_the_beginning_of_a_longer_one(op: str, world: int) -> None:
    for size in (1, 7, 1023):
        shorter = contribution(op, world - 1, world, size)
        assert torch.equal(shorter, contribution(op, world - 1, world, 1200)[:size])
        assert torch.equal(expected(op, world, size), expected(op, world, 1200)[:size])


@pytest.mark.parametrize("op", OPS)
def test_what_is_repeated_is_as_exact(op: str) -> None:
    world, size = 3, 3 * 13 * 59 * 3 + 100
    result = reduced(op, inputs(op, world, size), world)
    assert result.double().sub(expected(op, world, size)).abs().max() < 1e-5


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("size", [1, 2300, 2301, 2302, 10_000])
def test_shapes_and_dtypes(op: str, size: int) -> None:
    assert contribution(op, 1, 2, size).shape == expected(op, 2, size).shape == (size,)
    assert contribution(op, 1, 2, size).dtype == torch.int64
    assert expected(op, 2, size).dtype.is_floating_point == (op == "AVG")


@pytest.mark.parametrize("world", [3, 6, 7, 24])
def test_what_is_expected_of_an_average_is_exact_in_float64(world: int) -> None:
    exact = expected("AVG", world, 1023)
    right = inputs("SUM", world, 1023).sum(dim=0).double() / world
    assert (right - exact).abs().max() <= tolerance("AVG", torch.float64, world)


@pytest.mark.parametrize("op", OPS)
def test_every_value_and_partial_result_fits_uint8_and_bfloat16(op: str) -> None:
    # None is negative or zero in a product, so partial results grow: they are at most the whole.
    whole = "SUM" if op == "AVG" else op
    for world in WORLDS:
        rows = inputs(op, world, world + EXTRA)
        assert rows.min() >= (1 if op == "PRODUCT" else 0)
        assert max(int(rows.max()), int(reduced(whole, rows, world).max())) <= 120, world


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", ["SUM", "PRODUCT", "MIN", "MAX"])
@pytest.mark.parametrize("world", [1, 2, 3, 8, 61, 70])
def test_a_reduction_in_any_dtype_and_order_is_exact(
    op: str, world: int, dtype: torch.dtype
) -> None:
    combine: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]
    combine = {"SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum}
    parts = list(inputs(op, world, 200).to(dtype))
    while len(parts) > 1:  # as a tree does
        parts = [combine[op](*pair) if len(pair) > 1 else pair[0] for pair in _pairs(parts)]
    assert parts[0].dtype == dtype
    assert torch.equal(parts[0], expected(op, world, 200).to(dtype))


@pytest.mark.parametrize("op", OPS)
def test_a_lost_rank_changes_the_result(op: str) -> None:
    for world in WORLDS[1:]:
        if world < 62 or op in COUNTED:
            rows = inputs(op, world, world)
            changed = each_left_out(op, rows) != expected(op, world, world)
            assert changed.any(dim=1).all(), world


@pytest.mark.parametrize(("op", "world"), [("MIN", 62), ("MIN", 128), ("MAX", 128), ("MAX", 1024)])
def test_a_lost_rank_of_many_changes_an_extreme(op: str, world: int) -> None:
    rows = inputs(op, world, world + EXTRA)
    changed = each_left_out(op, rows) != expected(op, world, world + EXTRA)
    assert changed.any(dim=1).all()


@pytest.mark.parametrize("op", COUNTED)
def test_a_rank_that_counts_twice_changes_the_result(op: str) -> None:
    for world in WORLDS:
        size = world + EXTRA
        changed = each_twice(op, inputs(op, world, size)) != expected(op, world, size)
        assert changed.any(dim=1).all(), world


@pytest.mark.parametrize("op", COUNTED)
def test_a_rank_that_counts_for_another_changes_the_result(op: str) -> None:
    for world in WORLDS[1:]:
        rows = inputs(op, world, world)
        without = each_left_out(op, rows)
        other = rows.roll(1, dims=0)
        share = other.double() / world if op == "AVG" else other
        swapped = without * share if op == "PRODUCT" else without + share
        wrong = ~swapped.double().isclose(expected(op, world, world).double())
        assert wrong.any(dim=1).all(), world


@pytest.mark.parametrize("op", OPS)
def test_a_contribution_that_is_shifted_by_one_changes_the_result(op: str) -> None:
    for world in range(1, 62):
        rows = inputs(op, world, world + EXTRA)
        for rank in range(0, world, 7):
            shifted = rows.clone()
            shifted[rank] = rows[rank].roll(1)
            exact = expected(op, world, world + EXTRA)
            assert not torch.equal(reduced(op, shifted, world), exact), (world, rank)


@pytest.mark.parametrize(
    "op",
    [
        "SUM",
        "AVG",
        "MIN",
        "MAX",
        pytest.param("PRODUCT"),
    ],
)
def test_a_result_that_is_shifted_by_one_is_another(op: str) -> None:
    for world in WORLDS:
        exact = expected(op, world, 2 + EXTRA)
        assert not torch.equal(exact[1:], exact[:-1]), world


@pytest.mark.parametrize("world", [1, 2, 4, 8, 64, 1024])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_averages_of_a_power_of_two_are_exact(dtype: torch.dtype, world: int) -> None:
    assert tolerance("AVG", dtype, world) == 0.0
    rows = inputs("AVG", world, 200).to(dtype)
    exact = expected("AVG", world, 200)
    for average in _averages(rows):
        assert torch.equal(average.double(), exact)


@pytest.mark.parametrize("world", [3, 5, 6, 7, 12, 48, 70, 1000])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_other_averages_are_within_tolerance(dtype: torch.dtype, world: int) -> None:
    rows = inputs("AVG", world, 400).to(dtype)
    exact = rows.double().sum(dim=0) / world
    allowed = tolerance("AVG", dtype, world)
    for average in _averages(rows):
        assert (average.double() - exact).abs().max() <= allowed


@pytest.mark.parametrize("world", [3, 5, 6, 7, 12, 48, 70])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_lost_or_doubled_rank_is_beyond_tolerance(dtype: torch.dtype, world: int) -> None:
    rows = inputs("AVG", world, 13 * world)
    exact = expected("AVG", world, 13 * world)
    allowed = tolerance("AVG", dtype, world)
    for wrong in (each_left_out("AVG", rows), each_twice("AVG", rows)):
        assert ((wrong - exact).abs() > allowed).any(dim=1).all()


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_integers_have_no_tolerance(op: str, dtype: torch.dtype) -> None:
    assert tolerance(op, dtype, 3) == 0.0


@pytest.mark.parametrize("op", ["SUM", "PRODUCT", "MIN", "MAX"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_only_averages_have_a_tolerance(op: str, dtype: torch.dtype) -> None:
    assert tolerance(op, dtype, 3) == 0.0


def _pairs(parts: Sequence[torch.Tensor]) -> list[Sequence[torch.Tensor]]:
    return [parts[start : start + 2] for start in range(0, len(parts), 2)]


def _averages(rows: torch.Tensor) -> list[torch.Tensor]:
    """Return the average as backends take it: scaled before or after, by quotient or factor."""
    world, factor = len(rows), torch.tensor(1 / len(rows), dtype=rows.dtype)
    after, before, scaled = (torch.zeros_like(rows[0]) for _ in range(3))
    for row in rows:
        after, before, scaled = after + row, before + row / world, scaled + row * factor
    return [after / world, after * factor, before, scaled]
