import math
from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn

from ddpcheck.target.builtin import seeded
from ddpcheck.target.minigpt import (
    PADDING,
    Attention,
    Layer,
    MiniGPT,
    MiniGPTConfig,
    count_predictions,
    next_byte_loss,
    summed_next_byte_loss,
)

SMALL = MiniGPTConfig(block=8, layers=2, heads=2, width=16)


@pytest.fixture
def model() -> MiniGPT:
    return seeded(lambda: MiniGPT(SMALL))


@pytest.fixture
def batch() -> Tensor:
    return torch.randint(256, (3, 9), generator=torch.Generator().manual_seed(1))


def test_a_logit_for_every_byte_at_every_position(model: MiniGPT, batch: Tensor) -> None:
    assert model(batch[:, :8]).shape == (3, 8, 256)
    assert model(batch[:, :5]).shape == (3, 5, 256)


def test_a_later_byte_changes_no_earlier_logit(model: MiniGPT, batch: Tensor) -> None:
    tokens = batch[:, :8]
    before = model(tokens)
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 256
    after = model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_an_earlier_byte_reaches_the_last_logit(model: MiniGPT, batch: Tensor) -> None:
    tokens = batch[:, :8]
    changed = tokens.clone()
    changed[:, 0] = (changed[:, 0] + 1) % 256
    assert not torch.allclose(model(tokens)[:, -1], model(changed)[:, -1])


def test_the_order_of_earlier_bytes_matters(model: MiniGPT) -> None:
    one, other = torch.tensor([[1, 2, 3]]), torch.tensor([[2, 1, 3]])
    assert not torch.allclose(model(one)[:, -1], model(other)[:, -1])


def test_the_first_loss_is_that_of_a_uniform_guess(model: MiniGPT, batch: Tensor) -> None:
    assert next_byte_loss(model, batch).item() == pytest.approx(math.log(256), abs=0.1)


def test_the_mean_is_the_sum_over_the_predictions(model: MiniGPT, batch: Tensor) -> None:
    assert count_predictions(batch) == 3 * 8
    summed = summed_next_byte_loss(model, batch)
    assert next_byte_loss(model, batch).item() == pytest.approx(summed.item() / 24)


def test_every_parameter_gets_a_gradient(model: MiniGPT, batch: Tensor) -> None:
    next_byte_loss(model, batch).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_float64_stays_float64(model: MiniGPT, batch: Tensor) -> None:
    loss = next_byte_loss(model.double(), batch)
    loss.backward()
    assert loss.dtype is torch.float64


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_the_loss_is_float32(
    model: MiniGPT, batch: Tensor, dtype: torch.dtype
) -> None:
    exact = next_byte_loss(model, batch)
    with torch.autocast("cpu", dtype):
        loss = next_byte_loss(model, batch)
    loss.backward()
    assert loss.dtype is torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=0.01)


def test_what_is_padding_is_not_predicted(model: MiniGPT, batch: Tensor) -> None:
    padded = batch.clone()
    padded[:, 6:] = PADDING
    assert count_predictions(padded) == 15
    torch.testing.assert_close(next_byte_loss(model, padded), next_byte_loss(model, batch[:, :6]))


def test_rows_cut_in_two_hold_whole_heads(model: MiniGPT, batch: Tensor) -> None:
    # What tensor parallelism relies on: half the rows are the attention with half the heads.
    layer = model.layers[0]
    assert isinstance(layer, Layer)
    x = model.bytes(batch)
    whole = mixed_heads(layer.attention, x)
    rows = layer.attention.query_key_value
    rows.weight, rows.bias = (nn.Parameter(each[:24]) for each in (rows.weight, rows.bias))
    torch.testing.assert_close(mixed_heads(layer.attention, x), whole[..., :8])


def mixed_heads(attention: Attention, x: Tensor) -> Tensor:
    """Return what the attention hands to its last linear map: the heads side by side."""
    seen: list[Tensor] = []
    hook = attention.out.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with suppress(RuntimeError):  # half the heads do not fit the map
        attention(x)
    hook.remove()
    return seen[0]


def test_it_learns_a_batch_by_heart(model: MiniGPT, batch: Tensor) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(40):
        next_byte_loss(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert next_byte_loss(model, batch).item() < 1.0
