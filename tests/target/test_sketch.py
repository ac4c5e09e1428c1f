import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpcheck.measures.sketch import PROJECTIONS, mean_projection, relative_difference
from ddpcheck.target.sketch import (
    CHUNK,
    _normals,
    _signs,
    digest_of,
    hash_bytes,
    sketch,
    sketch_all,
)

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DTYPES = (*FLOATS, *INTEGERS)
LARGE = 2 * CHUNK + 17


def bits(count: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Return ``count`` elements of random bits, NaN and infinities among them."""
    generator = torch.Generator().manual_seed(seed)
    size = count * torch.empty((), dtype=dtype).element_size()
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator).view(dtype)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def with_bit_flipped(tensor: torch.Tensor, bit: int) -> torch.Tensor:
    """Return a copy in which one bit, counted over all bytes, is another."""
    copy = tensor.clone()
    copy.view(torch.uint8)[bit // 8] ^= 1 << bit % 8
    return copy


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equal_bits_have_equal_digests(dtype: torch.dtype) -> None:
    tensor = bits(1000, dtype)
    assert sketch(tensor.clone()).digest == sketch(tensor).digest
    assert sketch(tensor.view(10, 100)).digest == sketch(tensor).digest
    assert sketch(tensor.repeat_interleave(2)[::2]).digest == sketch(tensor).digest


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_flipped_bit_changes_the_digest(dtype: torch.dtype) -> None:
    tensor = bits(5, dtype)
    count = 8 * tensor.element_size() * len(tensor)
    digests = {sketch(with_bit_flipped(tensor, bit)).digest for bit in range(count)}
    assert len(digests) >= count - 1
    assert sketch(tensor).digest not in digests


def test_two_flipped_high_bits_change_the_digest() -> None:
    tensor = torch.arange(1.0, 9.0, dtype=torch.float64)
    pairs = [(one, other) for other in range(8) for one in range(other)]
    for bit in range(48, 64):
        digests = [
            sketch(with_bit_flipped(with_bit_flipped(tensor, 64 * i + bit), 64 * j + bit)).digest
            for i, j in pairs
        ]
        assert sketch(tensor).digest not in digests, bit


@given(st.integers(0, 32 * LARGE - 1), st.sampled_from([0.0, 1.0]))
@settings(max_examples=25, deadline=None)
def test_a_flipped_bit_anywhere_in_a_large_tensor_changes_the_digest(
    bit: int, value: float
) -> None:
    tensor = torch.full((LARGE,), value)
    assert sketch(with_bit_flipped(tensor, bit)).digest != sketch(tensor).digest


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_swapped_elements_change_the_digest(dtype: torch.dtype) -> None:
    tensor = torch.arange(1, 41).to(dtype)
    for one in range(0, 40, 3):
        for other in range(one + 1, 40, 5):
            swapped = tensor.clone()
            swapped[[one, other]] = tensor[[other, one]]
            assert sketch(swapped).digest != sketch(tensor).digest


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_shift_changes_the_digest(dtype: torch.dtype) -> None:
    tensor = torch.arange(1, 101).to(dtype)
    digests = {sketch(tensor.roll(by)).digest for by in range(100)}
    assert len(digests) == 100


def test_one_zero_more_changes_the_digest() -> None:
    assert len({sketch(torch.zeros(size)).digest for size in range(70)}) == 70


def test_the_sign_of_zero_and_the_bits_of_nan_change_the_digest() -> None:
    zeros = sketch(torch.tensor([0.0])), sketch(torch.tensor([-0.0]))
    assert zeros[0].digest != zeros[1].digest
    nan = torch.tensor([math.nan])
    assert sketch(nan).digest == sketch(nan.clone()).digest
    assert sketch(with_bit_flipped(nan, 3)).digest != sketch(nan).digest


def test_bool_tensors_have_digests() -> None:
    tensor = torch.tensor([True, False, True])
    assert sketch(tensor).digest == sketch(tensor.clone()).digest
    assert sketch(tensor).digest != sketch(~tensor).digest


def test_empty_and_scalar_tensors_have_sketches() -> None:
    empty = sketch(torch.zeros(0, 5))
    assert (empty.norm, empty.projections) == (0.0, (0.0,) * PROJECTIONS)
    scalar = sketch(torch.tensor(-3.0))
    assert scalar.norm == 3.0
    assert scalar.projections == tuple(-3.0 * each for each in sketch(torch.ones(1)).projections)
    assert scalar.digest != sketch(torch.tensor(3.0)).digest != empty.digest


@pytest.mark.parametrize("view", ["transposed", "strided", "expanded", "reversed"])
def test_a_view_has_the_sketch_of_its_copy(view: str) -> None:
    tensor = normal(6, 8)
    views = {
        "transposed": tensor.t(),
        "strided": tensor[::2, 1::3],
        "expanded": tensor[:1].expand(5, 8),
        "reversed": tensor.flip(0)[1:],
    }
    assert sketch(views[view]) == sketch(views[view].contiguous())


def test_a_sketch_is_the_same_in_every_process() -> None:
    made = sketch(torch.arange(1, 6, dtype=torch.float32))
    assert made.digest == "73fb987930833630"
    assert made.projections == pytest.approx((-2.65477969, -6.42734825, 7.35535353, -3.03711855))


def test_a_sketch_leaves_the_tensor_its_graph_and_the_random_state_alone() -> None:
    tensor = normal(4, 4).requires_grad_()
    before, state = tensor.detach().clone(), torch.get_rng_state()
    doubled = tensor * 2
    sketch(doubled)
    doubled.sum().backward()
    assert torch.equal(tensor.detach(), before)
    assert torch.equal(torch.get_rng_state(), state)
    assert tensor.grad is not None
    assert tensor.grad.eq(2.0).all()


@pytest.mark.parametrize("size", [1, 2, 7, CHUNK, CHUNK + 1, LARGE])
def test_norm_and_projections_are_linear(size: int) -> None:
    one, other = normal(size, seed=1), normal(size, seed=2)
    assert sketch(one).norm == pytest.approx(float(one.norm()))
    assert sketch(-3 * one).norm == pytest.approx(3 * float(one.norm()))
    difference = sketch(one - other).projections
    parts = zip(sketch(one).projections, sketch(other).projections, strict=True)
    assert difference == pytest.approx([a - b for a, b in parts], abs=1e-9 * size)


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_the_projection_of_a_mean_is_the_mean_of_projections(world: int) -> None:
    tensors = [normal(300, seed=rank) for rank in range(world)]
    mean = sketch(torch.stack(tensors).mean(dim=0))
    assert mean.projections == pytest.approx(mean_projection([sketch(t) for t in tensors]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rounding_to_a_dtype_is_as_far_as_the_dtype_rounds(dtype: torch.dtype) -> None:
    tensor = normal(5000)
    relative = relative_difference(sketch(tensor), sketch(tensor.to(dtype)))
    assert relative <= torch.finfo(dtype).eps
    assert (relative == 0.0) == (dtype is torch.float64)


def ratio(size: int, relative: float, seed: int) -> float:
    """Return the estimate over the truth for one random perturbation."""
    tensor, noise = normal(size, seed=2 * seed), normal(size, seed=2 * seed + 1)
    other = tensor + noise * (relative * tensor.norm() / noise.norm())
    truth = float((tensor - other).norm() / max(tensor.norm(), other.norm()))
    return relative_difference(sketch(tensor), sketch(other)) / truth


@given(st.integers(1, 3 * CHUNK), st.floats(-12, 0).map(lambda e: 10.0**e), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_an_estimate_is_of_the_order_of_the_truth(size: int, relative: float, seed: int) -> None:
    assert 1 / 20 < ratio(size, relative, seed) < 3


@pytest.mark.parametrize("size", [1, 3, 50, 4000])
@pytest.mark.parametrize("relative", [1e-6, 1e-3, 0.5])
def test_nearly_all_estimates_are_within_a_factor_of_three(size: int, relative: float) -> None:
    ratios = [ratio(size, relative, seed) for seed in range(100)]
    assert sum(1 / 3 < each < 3 for each in ratios) >= 90
    assert min(ratios) > 1 / 20


def test_a_swap_of_two_elements_is_a_difference() -> None:
    tensor = torch.arange(6.0)
    swapped = tensor[[5, 1, 2, 3, 4, 0]]
    assert relative_difference(sketch(tensor), sketch(swapped)) > 0.1


@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_the_imaginary_part_counts() -> None:
    tensor = torch.tensor([1 + 1j, 2])
    assert relative_difference(sketch(tensor), sketch(tensor.conj().resolve_conj())) > 0.1


def test_complex128_has_a_sketch() -> None:
    assert sketch(torch.tensor([3 + 4j], dtype=torch.complex128)).norm == pytest.approx(5.0)


def test_the_sparse_gradient_of_an_embedding_has_a_sketch() -> None:
    embedding = torch.nn.Embedding(5, 3, sparse=True)
    embedding(torch.tensor([1, 3])).sum().backward()
    assert embedding.weight.grad is not None
    assert sketch(embedding.weight.grad).norm == pytest.approx(6**0.5)


def test_tensors_that_are_none_are_left_out() -> None:
    named = [("a", torch.ones(1)), ("b", None), ("c", torch.zeros(1))]
    assert list(sketch_all(named)) == ["a", "c"]
    assert sketch_all([]) == {}


def test_one_digest_stands_for_all_of_them_in_their_order() -> None:
    one, other = sketch(torch.ones(3)), sketch(torch.zeros(3))
    assert digest_of([one, other]) == digest_of([sketch(torch.ones(3)), sketch(torch.zeros(3))])
    others = [[other, one], [one], [one, other, other], []]
    assert digest_of([one, other]) not in {digest_of(each) for each in others}


def test_the_hash_of_bytes_is_the_same_in_every_process() -> None:
    assert hash_bytes(b"ddpcheck") == 5420473984367109210
    assert len({hash_bytes(bytes([each])) for each in range(256)}) == 256
    assert 0 <= hash_bytes(b"") < 2**64


def test_a_scripts_default_device_changes_nothing() -> None:
    tensor = torch.arange(12.0).reshape(3, 4)
    known = sketch(tensor)
    for made in (_normals, _signs):
        made.cache_clear()
    with torch.device("meta"):
        assert sketch(tensor) == known
