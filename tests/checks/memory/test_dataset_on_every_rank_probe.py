from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contexts import context_with
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, TensorDataset

from ddpcheck.checks.memory import dataset_on_every_rank
from ddpcheck.checks.memory.dataset_on_every_rank import Observer
from ddpcheck.machine.cgroups import Room
from ddpcheck.watch.objects import own_bytes
from ddpcheck.watch.trained import Watched


class Mapped(Dataset[Any]):
    """A dataset that maps its files."""

    def __init__(self, folder: Path) -> None:
        np.save(folder / "x.npy", np.zeros((10, 100)))
        torch.save(torch.zeros(10, 100), folder / "y.pt")
        self.x = np.load(folder / "x.npy", mmap_mode="r")[:8]
        self.y = torch.load(folder / "y.pt", mmap=True)
        self.shared = torch.zeros(1000).share_memory_()

    def __len__(self) -> int:
        return 8


class Eager(Dataset[Any]):
    """A dataset that reads its files."""

    def __init__(self) -> None:
        self.samples = [{"image": np.zeros(50, np.uint8)} for _ in range(10)]
        self.labels = torch.zeros(10)

    def __len__(self) -> int:
        return 10


def test_bytes_of_its_own(tmp_path: Path) -> None:
    assert own_bytes(Mapped(tmp_path)) == 0
    assert own_bytes(Eager()) == 540
    assert own_bytes(Subset(TensorDataset(torch.zeros(10), torch.zeros(10)), [1, 2])) == 80


def seen(monkeypatch: pytest.MonkeyPatch, loader: Any, *used: int) -> tuple[int, int]:
    """Return what was used at most, of 100 bytes, and what the dataset takes."""
    rooms = iter([*used, 0])
    told = lambda: ("the machine", Room(100, next(rooms)))  # noqa: E731
    monkeypatch.setattr(dataset_on_every_rank, "tightest_memory", told)
    observer = Observer(context_with(watches=True))
    observer.on_built(Watched(nn.Identity(), nn.Identity(), loader, "cpu"))
    for step in (0, 1, 2, 3)[: len(used) + (len(used) > 2)]:
        observer.on_step(step)
    facts = observer.facts()
    return facts.used_bytes, facts.dataset_bytes


def loaded(parts: int) -> DataLoader[Any]:
    data = Eager()
    sampler: DistributedSampler[Any] = DistributedSampler(data, num_replicas=parts, rank=0)
    return DataLoader(data, sampler=sampler)


def test_the_dataset_counts_where_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(monkeypatch, loaded(2), 50, 70) == (70, 0)
    assert seen(monkeypatch, loaded(2), 50, 90, 60) == (90, 540)


def test_what_is_one_ranks_own_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(monkeypatch, loaded(1), 90) == (90, 0)
    assert seen(monkeypatch, DataLoader(Eager()), 90) == (90, 0)
    assert seen(monkeypatch, (), 90) == (90, 0)
