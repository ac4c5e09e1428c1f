from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.fsdp
from contexts import context_with
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from ddpcheck.checks.memory.model_on_every_rank import Facts, Observer
from ddpcheck.watch.functions import Functions


@pytest.fixture
def observer(tmp_path: Path) -> Iterator[Observer]:
    observer = Observer(context_with(watches=True))

    def emit(event: str, *values: Any) -> None:
        if event == "sharding":
            observer.on_sharding(*values)

    functions = Functions(emit)
    functions.install()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/met", rank=0, world_size=1)
    yield observer
    dist.destroy_process_group()
    functions.close()


def sharded(observer: Observer, device: str) -> Facts:
    mesh = init_device_mesh("cpu", (1,))
    with torch.device(device):
        model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    torch.distributed.fsdp.fully_shard(model[0], mesh=mesh)
    torch.distributed.fsdp.fully_shard(model, mesh=mesh)
    return observer.facts()


def test_each_parameter_counts_once(observer: Observer) -> None:
    facts = sharded(observer, "cpu")
    assert facts.model_bytes == 2 * 64
    assert facts.location is not None
    assert facts.location.file == __file__


def test_on_the_meta_device_there_is_nothing(observer: Observer) -> None:
    assert sharded(observer, "meta").model_bytes == 0
