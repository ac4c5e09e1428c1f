from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from contexts import context_with
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from ddpcheck.checks.checkpoint.partly_read import Observer, judge
from ddpcheck.watch.transfers import Transfers


@pytest.fixture
def observer() -> Iterator[Observer]:
    observer = Observer(context_with(watches=True))

    def emit(event: str, *values: Any) -> None:
        if event == "read":
            observer.on_read(*values)

    transfers = Transfers(emit)
    transfers.install()
    yield observer
    transfers.close()


def net(depth: int) -> nn.ModuleDict:
    return nn.ModuleDict({"layers": nn.ModuleList(nn.Linear(4, 4) for _ in range(depth))})


def saved(folder: Path) -> Path:
    model = net(3)
    optimizer = torch.optim.AdamW(model.parameters())
    sum(each.sum() for each in model.parameters()).backward()  # type: ignore[union-attr]
    optimizer.step()
    save(
        {"model": model.state_dict(), "optim": optimizer.state_dict(), "epoch": 3},
        checkpoint_id=folder,
    )
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("depth", "unread"), [(3, ()), (2, ("bias", "weight"))])
def test_a_model_with_fewer_layers(
    observer: Observer, tmp_path: Path, depth: int, unread: tuple[str, ...]
) -> None:
    state = {"model": net(depth).state_dict()}
    load(state, checkpoint_id=saved(tmp_path))
    (read,) = observer.facts().reads
    assert read.beside == read.unread == tuple(f"model.layers.2.{name}" for name in unread)
    assert read.held == 6
    assert read.location is not None
    assert read.location.file == __file__
    assert len(judge({0: observer.facts()})) == bool(unread)


@pytest.mark.filterwarnings("ignore")
def test_what_is_converted_is_asked_for_as_a_whole(observer: Observer, tmp_path: Path) -> None:
    dcp_to_torch_save(saved(tmp_path / "dcp"), tmp_path / "whole.pt")
    assert observer.facts().reads == ()
