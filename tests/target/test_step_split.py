import time
from collections.abc import Iterator
from itertools import repeat
from threading import Timer
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket, HashStore
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.measures.split import StepSplit
from ddpcheck.target.step_split import WARM_UP_STEPS, SplitParts, measure_split

WIDTH = 384
STEPS = 4


@pytest.fixture(scope="module", autouse=True)
def _group() -> Iterator[None]:
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def loss(model: nn.Module, batch: Tensor) -> Tensor:
    return torch.as_tensor(model(batch)).square().mean()


def work(times: int) -> Tensor:
    """Return a batch after as much work as ``times`` forward passes."""
    batch = torch.ones(WIDTH, WIDTH)
    for _ in range(times):
        batch = (batch @ batch) / WIDTH
    return batch


def make_parts(**changed: Any) -> SplitParts:
    net = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(4)))
    values: dict[str, Any] = {
        "model": DistributedDataParallel(net),
        "loss": loss,
        "optimizer": torch.optim.SGD(net.parameters(), lr=1e-3),
        "device": "cpu",
    }
    return SplitParts(**values | changed)


def measured(parts: SplitParts, batches: Iterator[Tensor]) -> StepSplit:
    split = measure_split(parts, batches, STEPS)
    # The best of some: another process may take the core away between two marks.
    for _ in range(4):
        if abs(1 - split.parts_s / split.step_s) < 0.05:
            break
        split = measure_split(parts, batches, STEPS)
    return split


def test_the_parts_add_up_to_the_step() -> None:
    split = measured(make_parts(), repeat(work(1)))
    assert split.parts_s == pytest.approx(split.step_s, rel=0.05)
    assert sum(split.shares().values()) == pytest.approx(1.0, abs=0.05)
    parts = (split.data_s, split.forward_s, split.backward_s, split.optimizer_s)
    assert min(parts) > 0.0
    assert split.exposed_comm_s >= 0.0
    assert split.comm_s > 0.0
    assert split.steps == STEPS


def test_a_loader_that_is_slow_shows_as_wait_for_data() -> None:
    split = measured(make_parts(), (work(40) for _ in repeat(None)))
    assert split.shares()["data"] > 0.5
    assert split.parts_s == pytest.approx(split.step_s, rel=0.05)


class SlowStep(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        work(40)
        return super().step(closure)


def test_a_slow_optimizer_shows_as_optimizer() -> None:
    parts = make_parts()
    slow = SlowStep(parts.model.parameters(), lr=1e-3)
    split = measured(make_parts(model=parts.model, optimizer=slow), repeat(work(1)))
    assert split.shares()["optimizer"] > 0.5


def test_a_slow_loss_shows_as_forward() -> None:
    def slow_loss(model: nn.Module, batch: Tensor) -> Tensor:
        work(40)
        return loss(model, batch)

    split = measured(make_parts(loss=slow_loss), repeat(work(1)))
    assert split.shares()["forward"] > 0.5


LATE_S = 0.1
# A layer of this width is more than 1 MiB: a bucket of its own in every version of torch.
WIDE = 600


def compute(_: Tensor) -> None:
    """Take twice as long as a late bucket."""
    began_s = time.perf_counter()
    while time.perf_counter() - began_s < 2 * LATE_S:
        work(1)


class SlowInTheMiddle(nn.Module):
    """Two layers in a bucket each; between their gradients there is much to compute."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE)

    def forward(self, x: Tensor) -> Tensor:
        middle = torch.as_tensor(self.first(x))
        middle.register_hook(compute)  # of its gradient
        return torch.as_tensor(self.second(middle))


@pytest.mark.parametrize(("late", "is_exposed"), [(True, True), (False, False)])
def test_only_what_comes_after_the_last_gradient_is_exposed(
    *, late: bool, is_exposed: bool
) -> None:
    # The first bucket, or the last one, comes late: the first one while gradients are computed.
    net = SlowInTheMiddle()
    ddp = DistributedDataParallel(net, bucket_cap_mb=1)

    def come_later(_: object, bucket: GradBucket) -> Future[Tensor]:
        coming: Future[Tensor] = Future()
        if bucket.is_last() is late:
            Timer(LATE_S, coming.set_result, (bucket.buffer(),)).start()
        else:
            coming.set_result(bucket.buffer())
        return coming

    ddp.register_comm_hook(None, come_later)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    batches = repeat(torch.ones(4, WIDE))
    split = measure_split(make_parts(model=ddp, optimizer=optimizer), batches, STEPS)
    assert split.comm_s > LATE_S
    assert (split.exposed_comm_s > LATE_S / 2) is is_exposed
    assert split.backward_s > 2 * LATE_S


def test_every_step_takes_a_batch_and_trains() -> None:
    parts = make_parts()
    before = [each.detach().clone() for each in parts.model.parameters()]
    taken: list[int] = []

    def batches() -> Iterator[Tensor]:
        for number in range(100):
            taken.append(number)
            yield work(1)

    measure_split(parts, batches(), 3)
    assert len(taken) == WARM_UP_STEPS + 3
    assert not any(map(torch.equal, before, parts.model.parameters()))
