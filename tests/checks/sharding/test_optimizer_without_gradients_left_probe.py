"""What an optimizer keeps of a model whose parameters gave way to others."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed.fsdp
from torch import nn
from torch.optim import SGD

from ddpcheck.finding import Location
from ddpcheck.watch.functions import Functions
from ddpcheck.watch.left_behind import LeftBehind

LINE = Location("/train.py", 41, "wrap_root")
Prepare = Callable[[nn.Module, LeftBehind], torch.optim.Optimizer]


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))


def shard(module: nn.Module, behind: LeftBehind) -> None:
    """Put new parameters in the place of a module's own, as fully_shard does."""
    behind.on_sharding(module, LINE)
    for part in module.modules():
        for name, each in list(part.named_parameters(recurse=False)):
            if not hasattr(each, "placements"):
                new = nn.Parameter(each.detach().clone(), requires_grad=each.requires_grad)
                new.placements = ()  # type: ignore[attr-defined]
                part.register_parameter(name, new)


def made(optimizer: torch.optim.Optimizer, behind: LeftBehind) -> torch.optim.Optimizer:
    behind.on_optimizing(optimizer, None)
    return optimizer


def left_by(prepare: Prepare, steps: int = 3) -> list[str]:
    """Return what is left in the optimizer of a model that was prepared so, and trained."""
    model, behind = net(), LeftBehind()
    optimizer = prepare(model, behind)
    for _ in range(steps):
        model(torch.ones(2, 3)).sum().backward()
        behind.look(optimizer)
        optimizer.step()
        model.zero_grad()
    return list(behind.left)


def between(model: nn.Module, behind: LeftBehind) -> torch.optim.Optimizer:
    shard(model.get_submodule("0"), behind)
    optimizer = made(SGD(model.parameters(), lr=0.1), behind)
    shard(model, behind)
    return optimizer


def test_what_was_sharded_after_the_optimizer_is_left() -> None:
    assert left_by(between) == ["1.weight", "1.bias"]


def afterwards(model: nn.Module, behind: LeftBehind) -> torch.optim.Optimizer:
    old = made(SGD(model.parameters(), lr=0.1), behind)
    shard(model, behind)
    del old
    return made(SGD(model.parameters(), lr=0.1), behind)


def kept_for_nothing(model: nn.Module, behind: LeftBehind) -> torch.optim.Optimizer:
    whole = list(model.parameters())
    shard(model, behind)
    optimizer = SGD(model.parameters(), lr=0.1)
    optimizer.whole = whole  # type: ignore[attr-defined]
    return made(optimizer, behind)


def of_a_part(model: nn.Module, behind: LeftBehind) -> torch.optim.Optimizer:
    shard(model, behind)
    return made(SGD(model.get_submodule("1").parameters(), lr=0.1), behind)


def put_right(model: nn.Module, behind: LeftBehind) -> torch.optim.Optimizer:
    optimizer = between(model, behind)
    optimizer.param_groups[0]["params"] = list(model.parameters())
    return optimizer


def added(model: nn.Module, behind: LeftBehind) -> torch.optim.Optimizer:
    optimizer = between(model, behind)
    optimizer.add_param_group({"params": list(model.get_submodule("1").parameters())})
    return optimizer


def in_another(model: nn.Module, behind: LeftBehind) -> torch.optim.Optimizer:
    optimizer = between(model, behind)
    other = made(SGD(model.get_submodule("1").parameters(), lr=0.1), behind)
    optimizer.other = other  # type: ignore[attr-defined]
    return optimizer


def frozen(model: nn.Module, behind: LeftBehind) -> torch.optim.Optimizer:
    model.get_submodule("1").requires_grad_(False)
    return between(model, behind)


def unused(model: nn.Module, behind: LeftBehind) -> torch.optim.Optimizer:
    model.add_module("2", nn.Identity())
    model.get_submodule("2").register_parameter("aux", nn.Parameter(torch.ones(1)))
    optimizer = made(SGD(model.parameters(), lr=0.1), behind)
    behind.on_sharding(model, LINE)
    aux = nn.Parameter(torch.ones(1))
    model.get_submodule("2").register_parameter("aux", aux)
    return optimizer


def ignored(model: nn.Module, behind: LeftBehind) -> torch.optim.Optimizer:
    optimizer = made(SGD(model.parameters(), lr=0.1), behind)
    behind.on_sharding(model, LINE)  # with all of them among its ignored_params
    return optimizer


def master_copies(model: nn.Module, behind: LeftBehind) -> torch.optim.Optimizer:
    optimizer = made(SGD(whole := list(model.parameters()), lr=0.1), behind)
    shard(model, behind)
    for old, new in zip(whole, model.parameters(), strict=True):
        old.grad = torch.zeros_like(new)  # the script carries gradients over, and weights back
    return optimizer


@pytest.mark.parametrize(
    "prepare",
    [
        afterwards,
        kept_for_nothing,
        of_a_part,
        put_right,
        added,
        in_another,
        frozen,
        unused,
        ignored,
        master_copies,
    ],
)
def test_silent(prepare: Prepare) -> None:
    assert left_by(prepare) == []


def test_what_is_put_right_after_a_step_is_not_left() -> None:
    model, behind = net(), LeftBehind()
    optimizer = between(model, behind)
    model(torch.ones(2, 3)).sum().backward()
    behind.look(optimizer)
    assert len(behind.left) == 2
    optimizer.param_groups[0]["params"] = list(model.parameters())
    behind.look(optimizer)
    assert behind.left == {}


def test_an_expert_without_tokens_tells_nothing() -> None:
    model, behind = net(), LeftBehind()
    optimizer = between(model, behind)
    behind.look(optimizer)
    assert behind.left == {}


def test_what_is_sharded_together_is_told_of_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def stub(module: Any, **_: Any) -> Any:
        return module

    monkeypatch.setattr(torch.distributed.fsdp, "fully_shard", stub)
    heard: list[Any] = []
    functions, both = Functions(lambda *event: heard.append(event)), [nn.LayerNorm(3), net()]
    functions.install()
    try:
        fully_shard: Any = torch.distributed.fsdp.fully_shard
        fully_shard(both)
        fully_shard(both[0])
    finally:
        functions.close()
    sharding = [told[1] for told in heard if told[0] == "sharding"]
    assert sharding == [told[1] for told in heard if told[0] == "sharded"] == [*both, both[0]]
