from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from contexts import context_with
from torch import nn
from torch.distributed.checkpoint.state_dict_saver import save

from ddpcheck.checks.memory.large_object_collective import Observer
from ddpcheck.watch.objects import raw_bytes
from ddpcheck.watch.transfers import Transfers

MIB = 2**20


@dataclass
class Result:
    """What a script may collect."""

    name: str
    scores: Any


class Aware(torch.Tensor):
    """A tensor of a kind of its own."""


WHOLE = torch.zeros(1000)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x" * 1000, 0),
        ([1, 2.0, None, len, int], 0),
        (torch.zeros(10), 40),
        ({"a": [torch.zeros(10), (np.zeros(5), "b")]}, 80),
        (Result("x", np.zeros(5, np.int8)), 5),
        ([WHOLE[:10], WHOLE[10:20]], 4000),
        (nn.Linear(3, 1), 16),
        (np.array(["a", None], dtype=object), 0),
        (torch.zeros(10, device="meta"), 0),
        (torch.zeros(4).as_subclass(Aware), 0),
    ],
)
def test_bytes_that_need_no_pickling(value: Any, expected: int) -> None:
    assert raw_bytes(value) == expected


def test_a_value_that_holds_itself() -> None:
    value: list[Any] = [torch.zeros(10)]
    value.append(value)
    assert raw_bytes(value) == 40


@pytest.fixture
def told(tmp_path: Path) -> Iterator[list[Any]]:
    """Yield what is told of collectives, in a group of this process alone."""
    events: list[Any] = []
    transfers = Transfers(lambda *told: events.append(told))
    transfers.install()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/met", rank=0, world_size=1)
    yield events
    dist.destroy_process_group()
    transfers.close()


def test_large_objects_are_told_of_with_their_line(told: list[Any]) -> None:
    tensor = torch.zeros(MIB)
    dist.all_gather_object([None], {"x": tensor})
    dist.gather_object(tensor, [None])
    dist.broadcast_object_list([tensor, "small"])
    operations = [each[1] for each in told]
    assert operations == ["all_gather_object", "gather_object", "broadcast_object_list"]
    for event, _, _, size_bytes, ranks, location in told:
        assert (event, ranks, location.file) == ("pickled", 1, __file__)
        assert 4 * MIB < size_bytes < 4.1 * MIB


def test_small_ones_and_torchs_own_are_not(told: list[Any], tmp_path: Path) -> None:
    dist.all_gather_object([None], torch.zeros(1000))
    # Its plan has the names of all of them.
    names = {f"{'layer' * 20}{number}": torch.zeros(1) for number in range(3000)}
    save(names, checkpoint_id=tmp_path / "state")
    assert [each for each in told if each[0] == "pickled"] == []
    # One process writes it, and leads.
    storing = [each[:3] for each in told if each[0] == "storing"]
    assert storing == [("storing", str(tmp_path / "state"), True)]


def test_the_largest_object_of_a_line_is_kept() -> None:
    observer = Observer(context_with(watches=True))
    for size_bytes, value in ((40, "x"), (60, torch.zeros(MIB)), (50, "x")):
        observer.on_pickled("gather_object", value, size_bytes * MIB, 2, None)
    (call,) = observer.facts().calls
    assert (call.size_bytes, call.raw_bytes, call.count) == (60 * MIB, 4 * MIB, 3)
