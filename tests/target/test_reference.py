import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ddpcheck.check import Skip
from ddpcheck.target import reference
from ddpcheck.target.live import LiveTarget, tensors_in
from ddpcheck.target.reference import (
    compare,
    distances,
    first_slice,
    from_text,
    gradient,
    joined_gradient,
    rehearse_loss,
    repeatable,
    rounding_unit,
    steady,
    to_text,
)
from ddpcheck.target.target import Loss

Batch = tuple[Tensor, Tensor]


class Pair(NamedTuple):
    inputs: Tensor
    targets: Tensor


def squares(model: nn.Module, batch: Any) -> Tensor:
    """Return the mean squared error; batch: inputs [n, 4], targets [n, 3]."""
    inputs, targets = batch
    return functional.mse_loss(model(inputs), targets)


def live(module: nn.Module, loader: Sequence[Any] = (), loss: Loss = squares) -> LiveTarget:
    return LiveTarget(
        name="test",
        is_built_in=False,
        module=module,
        model=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
        loss=loss,
        loader=loader,
        device="cpu",
    )


def batch(count: int, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 4, generator=generator), torch.randn(count, 3, generator=generator)


def linear() -> nn.Module:
    return nn.Linear(4, 3)


def linear_of(target: LiveTarget) -> nn.Module:
    """Return a copy of the target's model in float64."""
    return copy.deepcopy(target.module).double()


def doubled(pair: Batch) -> Batch:
    return pair[0].double(), pair[1].double()


def deep() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 3))


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


def tied() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 3))
    net[2].weight = net[0].weight
    return net


@pytest.mark.parametrize("build", [linear, deep, normed, tied])
@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_the_joined_gradient_is_the_plain_one_on_all_samples(
    build: Callable[[], nn.Module], ranks: int
) -> None:
    net = build()
    slices = [batch(2, seed) for seed in range(ranks)]
    joined = joined_gradient(live(net), slices)
    inputs, targets = (torch.cat(column) for column in zip(*slices, strict=True))
    alone = net.double()
    with steady(alone):
        exact = gradient(alone, squares, (inputs.double(), targets.double()))
    assert list(joined) == list(exact) == [name for name, _ in net.named_parameters()]
    assert all(torch.equal(joined[name], exact[name]) for name in exact)
    assert all(each.dtype == torch.float64 for each in joined.values())


@pytest.mark.parametrize("build", [linear, deep, normed])
def test_the_joined_gradient_is_the_mean_of_the_ranks_gradients(
    build: Callable[[], nn.Module],
) -> None:
    net = build().double()
    slices = [tuple(each.double() for each in batch(2, seed)) for seed in range(4)]
    joined = joined_gradient(live(net), slices)
    with steady(net):
        own = [gradient(net, squares, each) for each in slices]
    for name, exact in joined.items():
        mean = torch.stack([each[name] for each in own]).mean(dim=0)
        torch.testing.assert_close(mean, exact)


def test_the_model_is_left_as_it_was() -> None:
    net = normed()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    joined_gradient(live(net), [batch(2)])
    after = net.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(each.dtype == torch.float32 and each.grad is None for each in net.parameters())
    assert all(part.training for part in net.modules())


def test_a_parameter_without_gradient_is_left_out() -> None:
    net = cast(Any, nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3)))
    net[0].bias.requires_grad_(requires_grad=False)

    def first_layer(_: nn.Module, pair: Batch) -> Tensor:
        return functional.mse_loss(net[0](pair[0]), pair[1])

    assert list(gradient(net, first_layer, batch(2))) == ["0.weight"]


def test_gradient_starts_from_none_and_leaves_none() -> None:
    net = linear()
    squares(net, batch(8, seed=5)).backward()
    first = gradient(net, squares, batch(2))
    again = gradient(net, squares, batch(2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert all(each.grad is None for each in net.parameters())


def test_gradients_have_the_names_of_the_bare_model() -> None:
    wrapped = nn.Module()
    wrapped.module = linear()

    def loss(model: nn.Module, pair: Batch) -> Tensor:
        return squares(cast(nn.Module, model.module), pair)

    bare = wrapped.module
    assert list(gradient(wrapped, loss, batch(2), of=bare)) == ["weight", "bias"]
    assert all(each.grad is None for each in wrapped.parameters())


class Wrapper(nn.Module):
    """A model that has a part called ``module``, as torch's AveragedModel does."""

    def __init__(self) -> None:
        super().__init__()
        self.module = linear()

    def forward(self, inputs: Tensor) -> Tensor:
        return cast(Tensor, self.module(inputs))


def test_a_part_of_the_model_that_is_called_module_keeps_its_name() -> None:
    joined = joined_gradient(live(Wrapper()), [batch(2)])
    assert list(joined) == ["module.weight", "module.bias"]


@pytest.mark.parametrize(
    ("factor", "distance"),
    [
        pytest.param(1.0, 0.0, id="the same"),
        pytest.param(2.0, 1.0, id="doubled"),
        pytest.param(0.0, 1.0, id="zero"),
        pytest.param(-1.0, 2.0, id="turned round"),
        pytest.param(1.25, 0.25, id="a quarter more"),
    ],
)
def test_distances_are_those_from_the_joined_gradient(factor: float, distance: float) -> None:
    target, slices = live(linear()), [batch(2), batch(2, 1)]
    joined = joined_gradient(target, slices)
    found = distances(target, slices, {name: factor * each for name, each in joined.items()})
    assert list(found) == ["weight", "bias"]
    for name, (norm, apart) in found.items():
        assert norm == pytest.approx(float(joined[name].norm()))
        assert apart == pytest.approx(distance * norm)


def test_a_gradient_that_is_missing_is_as_far_away_as_it_is_long() -> None:
    found = distances(live(linear()), [batch(2)], {})
    assert all(norm == apart > 0 for norm, apart in found.values())


def test_steady_keeps_dropout_and_batch_statistics_out_and_puts_them_back() -> None:
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.9), nn.Linear(4, 4), nn.Dropout(0.9))
    net[3].eval()
    inputs, state = batch(8)[0], torch.get_rng_state()
    with steady(net):
        assert not net[0].training
        assert not net[1].training
        assert torch.equal(net(inputs), net(inputs))
        assert not net[0].get_buffer("running_mean").any()
    assert torch.equal(torch.get_rng_state(), state)
    assert [part.training for part in net] == [True, True, True, False]


def test_steady_puts_things_back_whatever_is_raised() -> None:
    net = deep()
    with pytest.raises(ZeroDivisionError), steady(net):
        raise ZeroDivisionError
    assert all(part.training for part in net.modules())


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(4, 8, num_layers=2, dropout=0.5, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        return cast(Tensor, self.layers(inputs)[0])


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return functional.dropout(self.linear(inputs), training=self.training)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.5, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        return cast(Tensor, self.layer(inputs))


@pytest.mark.parametrize("build", [Recurrent, Functional, Attention])
def test_steady_keeps_dropout_inside_other_modules_from_drawing(
    build: Callable[[], nn.Module],
) -> None:
    net, inputs = build(), torch.randn(2, 5, 4)
    with steady(net):
        assert torch.equal(net(inputs), net(inputs))


def test_recurrent_layers_stay_in_training_for_the_sake_of_their_gradients() -> None:
    net = Recurrent()
    with steady(net):
        assert net.layers.training
    assert (net.layers.training, net.layers.dropout) == (True, 0.5)


class OnlyTrains(nn.Module):
    """A model that gives losses in training and predictions else, as detectors do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Any:
        prediction = self.linear(inputs)
        return {"loss": prediction.square().mean()} if self.training else [prediction]


def test_a_loss_that_needs_training_mode_is_skipped() -> None:
    def loss(model: nn.Module, pair: Batch) -> Tensor:
        return cast(Tensor, model(pair[0])["loss"])

    with pytest.raises(Skip, match="does not compute in evaluation mode") as told:
        rehearse_loss(live(OnlyTrains(), loss=loss), batch(2))
    assert "\n" not in str(told.value)
    rehearse_loss(live(linear()), batch(2))


def compared(
    target: LiveTarget, slices: Sequence[Any], synced: dict[str, Tensor], rank: int = 0
) -> Any:
    texts = [to_text(each).encode() for each in slices]
    return compare(target, slices[rank], texts, rank, synced)


@pytest.mark.parametrize("rank", [0, 2])
def test_slices_are_compared_from_their_texts(rank: int) -> None:
    pairs = [batch(2, seed) for seed in range(3)]
    slices = [{"pair": pair, "name": "text"} for pair in pairs]

    def loss(model: nn.Module, given: dict[str, Batch]) -> Tensor:
        return squares(model, given["pair"])

    target = live(linear(), loss=loss)
    found = compared(target, slices, joined_gradient(target, slices), rank)
    assert list(found.distances) == list(found.own) == ["weight", "bias"]
    assert all(apart < 1e-12 < norm for norm, apart in found.distances.values())
    own = gradient(linear_of(target), squares, doubled(pairs[rank]))
    assert all(found.own[name].norm == pytest.approx(float(own[name].norm())) for name in own)


@pytest.mark.parametrize(
    ("slices", "words"),
    [
        ([(torch.ones(2, n, 4), torch.ones(2, n, 3)) for n in (5, 7)], "cannot be joined"),
        ([batch(2), (torch.ones(2, 9), batch(2)[1])], "cannot be joined"),
        pytest.param(
            [batch(2), batch(2)[0]],
            "",
        ),
    ],
)
def test_slices_that_cannot_be_compared_say_why(slices: Sequence[Any], words: str) -> None:
    found = compared(live(linear()), slices, {})
    assert isinstance(found, str)
    assert words in found
    assert "\n" not in found


def test_a_loss_that_draws_random_numbers_is_not_compared() -> None:
    def noisy(model: nn.Module, pair: Batch) -> Tensor:
        return squares(model, (pair[0] + torch.randn_like(pair[0]), pair[1]))

    found = compared(live(linear(), loss=noisy), [batch(2)], {})
    assert "draws random numbers" in found


def test_a_loss_that_is_not_a_number_is_not_said_to_draw_random_numbers() -> None:
    def lost(model: nn.Module, pair: Batch) -> Tensor:
        return squares(model, pair) * float("nan")

    assert "random" not in str(compared(live(linear(), loss=lost), [batch(2)], {}))


def test_what_draws_random_numbers_draws_the_same_each_time_and_leaves_the_state_alone() -> None:
    state = torch.get_rng_state()
    with repeatable("cpu"):
        first = torch.rand(3)
    with repeatable("cpu"):
        assert torch.equal(first, torch.rand(3))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [(torch.float32, 2.0**-23), (torch.float64, 2.0**-52), (torch.bfloat16, 2.0**-7)],
)
def test_the_rounding_unit_is_the_parameters(dtype: torch.dtype, unit: float) -> None:
    net = linear().to(dtype)
    pair = tuple(each.to(dtype) for each in batch(2))
    assert rounding_unit(live(net), pair) == unit


def test_the_rounding_unit_is_that_of_what_autocast_computes_in() -> None:
    def mixed(model: nn.Module, pair: Batch) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return squares(model, pair)

    net = deep()
    assert rounding_unit(live(net, loss=mixed), batch(2)) == 2.0**-7


@pytest.mark.parametrize(
    ("given", "cut"),
    [
        pytest.param(torch.arange(10), torch.arange(2), id="a tensor"),
        pytest.param(torch.arange(1), torch.arange(1), id="fewer samples than a slice"),
        pytest.param([torch.zeros(5, 3)], [torch.zeros(2, 3)], id="a list"),
        pytest.param((torch.ones(5), torch.ones(5, 2)), (torch.ones(2), torch.ones(2, 2)), id="2"),
        pytest.param(
            {"x": torch.ones(4), "scale": torch.tensor(3.0), "name": "a"},
            {"x": torch.ones(2), "scale": torch.tensor(3.0), "name": "a"},
            id="a scalar and a text stay",
        ),
    ],
)
def test_the_first_slice_is_the_first_samples_of_the_first_batch(given: Any, cut: Any) -> None:
    found = first_slice(live(linear(), [given, None]))
    torch.testing.assert_close(_comparable(found), _comparable(cut))


@pytest.mark.parametrize(
    "given",
    [
        pytest.param((torch.ones(4), torch.ones(5)), id="two first dimensions"),
        pytest.param("text", id="no tensor"),
        pytest.param(torch.tensor(1.0), id="scalars alone"),
    ],
)
def test_a_batch_that_cannot_be_cut_is_skipped(given: Any) -> None:
    with pytest.raises(Skip, match="cannot be cut"):
        first_slice(live(linear(), [given]))


def test_a_model_too_large_for_a_second_copy_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "REFERENCE_LIMIT_PARAMETERS", 14)
    with pytest.raises(Skip, match="more than 14 parameters"):
        joined_gradient(live(linear()), [batch(2)])
    monkeypatch.setattr(reference, "REFERENCE_LIMIT_PARAMETERS", 15)
    assert joined_gradient(live(linear()), [batch(2)])


def test_a_model_that_does_not_compute_in_float64_is_skipped_in_one_line() -> None:
    def loss(model: nn.Module, pair: Batch) -> Tensor:
        return squares(model, (pair[0].float(), pair[1]))

    with pytest.raises(Skip, match="does not compute in float64") as told:
        joined_gradient(live(linear(), loss=loss), [batch(2)])
    assert "\n" not in str(told.value)


def test_slices_that_were_padded_to_different_lengths_are_skipped() -> None:
    with pytest.raises(Skip):
        joined_gradient(live(linear()), [torch.ones(2, 5, 4), torch.ones(2, 7, 4)])


def test_named_tuples_are_joined() -> None:
    slices = [Pair(*batch(2)), Pair(*batch(2, 1))]
    assert joined_gradient(live(linear()), slices)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(torch.arange(4), id="integers"),
        pytest.param(torch.ones(2, 3, dtype=torch.bfloat16), id="bfloat16"),
        pytest.param((torch.ones(2), [torch.zeros(2, dtype=torch.bool)]), id="nested"),
        pytest.param({"x": torch.ones(2), "n": 3, "s": "text", "none": None}, id="a dict"),
        pytest.param(Pair(*batch(2)), id="a named tuple"),
        pytest.param("text", id="no tensor"),
    ],
)
def test_the_tensors_of_a_batch_travel_as_text(given: Any) -> None:
    text = to_text(given)
    assert text.isascii()
    arrived = from_text(text.encode())
    torch.testing.assert_close(arrived, tensors_in(given))
    assert [each.dtype for each in arrived] == [each.dtype for each in tensors_in(given)]


def _comparable(given: Any) -> list[Any]:
    """Return the tensors in a batch; the rest as numbers that compare equal."""
    if isinstance(given, Tensor):
        return [given]
    if isinstance(given, dict):
        return [each for value in given.values() for each in _comparable(value)]
    if isinstance(given, list | tuple):
        return [each for value in given for each in _comparable(value)]
    return [torch.tensor([float(ord(letter)) for letter in repr(given)])]
