from collections import OrderedDict, UserDict
from collections.abc import Iterator, MutableMapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import HashStore
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from ddpcheck.errors import TargetError
from ddpcheck.target.live import LiveTarget, go_live, map_tensors, moved, tensors_in
from ddpcheck.target.target import Target


class Pair(NamedTuple):
    inputs: torch.Tensor
    label: str


def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(model(batch)).mean()


def bare(module: nn.Module) -> nn.Module:
    return module


@pytest.fixture(scope="module", autouse=True)
def _group() -> Iterator[None]:
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def live(target: Target, device: str = "cpu") -> LiveTarget:
    return go_live(target, "mine", is_built_in=False, device=device)


def target(loader: Any = (), **changed: Any) -> Target:
    parts: dict[str, Any] = {"model": nn.Linear(2, 2), "loader": loader, "loss": loss}
    return Target(**parts | changed)


def test_a_model_is_wrapped_in_ddp() -> None:
    model = nn.Linear(2, 2)
    went = live(target(model=model))
    assert isinstance(went.model, DistributedDataParallel)
    assert went.ddp is went.model
    assert went.module is model
    assert went.model.gradient_as_bucket_view
    assert (went.name, went.is_built_in, went.device) == ("mine", False, "cpu")


def test_the_users_own_wrap_is_used() -> None:
    class Wrap(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

    model = nn.Linear(2, 2)
    went = live(target(model=model, wrap=Wrap))
    assert isinstance(went.model, Wrap)
    assert went.module is model
    assert went.ddp is None


def test_a_wrap_that_returns_the_model_itself_leaves_it_bare() -> None:
    model = nn.Linear(2, 2)
    went = live(target(model=model, wrap=bare))
    assert went.model is went.module is model


def test_the_users_optimizer_is_kept_and_sgd_is_made_where_there_is_none() -> None:
    model = nn.Linear(2, 2)
    adam = torch.optim.Adam(model.parameters())
    assert live(target(model=model, optimizer=adam)).optimizer is adam
    made = live(target(model=model)).optimizer
    assert isinstance(made, torch.optim.SGD)
    assert [id(p) for p in made.param_groups[0]["params"]] == [id(p) for p in model.parameters()]
    assert made.param_groups[0]["lr"] == 0.01


@pytest.mark.parametrize("model", [nn.ReLU(), nn.Linear(2, 2).requires_grad_(requires_grad=False)])
def test_a_model_with_nothing_to_train_is_told(model: nn.Module) -> None:
    with pytest.raises(TargetError, match="no parameter that requires a gradient"):
        live(target(model=model))


def test_a_model_is_moved_to_the_device_but_not_away_from_one() -> None:
    moved_there = live(target(wrap=bare), device="meta")
    assert {each.device.type for each in moved_there.module.parameters()} == {"meta"}
    placed = nn.Linear(2, 2, device="meta")
    kept = live(target(model=placed, wrap=bare), device="cpu")
    assert {each.device.type for each in kept.module.parameters()} == {"meta"}


def test_batches_start_anew_when_the_loader_ends() -> None:
    went = live(target([1, 2, 3]))
    assert list(islice(went.batches(), 7)) == [1, 2, 3, 1, 2, 3, 1]
    assert next(went.batches()) == 1


class Epochs:
    """A loader whose sampler notes the epochs that it is told."""

    def __init__(self) -> None:
        self.sampler = self
        self.told: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.told.append(epoch)

    def __iter__(self) -> Iterator[int]:
        return iter(self.told)


def test_the_sampler_is_told_each_epoch_before_it_begins() -> None:
    loader = Epochs()
    assert list(islice(live(target(loader)).batches(), 6)) == [0, 0, 1, 0, 1, 2]
    assert loader.told == [0, 1, 2]


def test_a_shuffled_loader_has_another_order_in_each_epoch() -> None:
    numbers = cast("Dataset[int]", range(20))
    sampler: DistributedSampler[int] = DistributedSampler(
        numbers, num_replicas=1, rank=0, shuffle=True
    )
    loader = DataLoader(numbers, batch_size=20, sampler=sampler)
    first, second = islice(live(target(loader)).batches(), 2)
    assert not torch.equal(first, second)
    assert torch.equal(first.sort().values, second.sort().values)


@pytest.mark.parametrize("loader", [[], (), iter(())])
def test_a_loader_without_batches_is_told(loader: Sequence[Any]) -> None:
    with pytest.raises(TargetError, match="--target mine: the loader gives no batch on this rank"):
        next(live(target(loader)).batches())


def test_a_generator_that_has_ended_is_told() -> None:
    batches = live(target(each for each in (1, 2))).batches()
    assert [next(batches), next(batches)] == [1, 2]
    with pytest.raises(TargetError, match="no batch"):
        next(batches)


def doubled(tensor: torch.Tensor) -> torch.Tensor:
    return 2 * tensor


@pytest.mark.parametrize(
    ("batch", "wanted"),
    [
        pytest.param(torch.ones(2), torch.full((2,), 2.0), id="a tensor"),
        pytest.param([torch.ones(1), 3], [torch.full((1,), 2.0), 3], id="a list"),
        pytest.param((torch.ones(1), None), (torch.full((1,), 2.0), None), id="a tuple"),
        pytest.param({"x": torch.ones(1)}, {"x": torch.full((1,), 2.0)}, id="a dict"),
        pytest.param(
            OrderedDict(x=torch.ones(1)), OrderedDict(x=torch.full((1,), 2.0)), id="a mapping"
        ),
        pytest.param(
            {"x": [(torch.ones(1), "t")]}, {"x": [(torch.full((1,), 2.0), "t")]}, id="nested"
        ),
        pytest.param(
            Pair(torch.ones(1), "a"), Pair(torch.full((1,), 2.0), "a"), id="a named tuple"
        ),
        pytest.param("text", "text", id="a text"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_tensors_are_mapped_in_their_containers(batch: Any, wanted: Any) -> None:
    mapped = map_tensors(batch, doubled)
    assert type(mapped) is type(wanted)
    assert repr(mapped) == repr(wanted)


class Encoding(UserDict[str, torch.Tensor]):
    """A mapping whose entries are attributes too, as tokenizers return them."""

    def __getattr__(self, name: str) -> torch.Tensor:
        if name not in self.data:
            raise AttributeError(name)
        return self.data[name]


def test_a_mapping_keeps_its_attributes() -> None:
    assert torch.equal(map_tensors(Encoding(x=torch.ones(1)), doubled).x, torch.tensor([2.0]))


class Wrapped(MutableMapping[str, torch.Tensor]):
    """A mapping that shares its entries with its shallow copies."""

    def __init__(self, **entries: torch.Tensor) -> None:
        self.entries = entries

    def __getitem__(self, key: str) -> torch.Tensor:
        return self.entries[key]

    def __setitem__(self, key: str, value: torch.Tensor) -> None:
        self.entries[key] = value

    def __delitem__(self, key: str) -> None:
        del self.entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


@pytest.mark.parametrize(
    "batch",
    [
        {"x": torch.ones(1)},
        OrderedDict(x=torch.ones(1)),
        Encoding(x=torch.ones(1)),
        pytest.param(
            Wrapped(x=torch.ones(1)),
        ),
    ],
)
def test_the_loaders_own_batch_stays_as_it_is(batch: Any) -> None:
    tensor = batch["x"]
    map_tensors(batch, doubled)
    assert tensors_in(batch)[0] is tensor
    assert batch["x"] is tensor


def test_tensors_come_in_order_and_each_as_often_as_it_is_there() -> None:
    one, two = torch.ones(1), torch.ones(2)
    found = tensors_in({"b": [two, one], "a": (one, "text"), "c": 3})
    assert [id(each) for each in found] == [id(two), id(one), id(one)]
    assert tensors_in(None) == []


def test_a_batch_is_moved_to_the_device() -> None:
    batch = {"x": torch.ones(2), "n": 3}
    there = moved(batch, "meta")
    assert (there["x"].device.type, there["n"]) == ("meta", 3)
    assert batch["x"] is moved(batch, "cpu")["x"]
