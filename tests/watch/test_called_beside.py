"""Which models are followed that a script calls and does not train."""

import copy
import gc
from collections.abc import Iterator
from weakref import ref

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.watch.called_beside import CalledBeside
from ddpcheck.watch.functions import Functions
from ddpcheck.watch.trained import Watched


class Student(nn.Linear):
    """A model of a class of its own: other tests have left models of other classes."""


class Holder(nn.Module):
    """Has what is trained and its teacher."""

    def __init__(self, ddp: nn.Module, teacher: nn.Module) -> None:
        super().__init__()
        self.ddp, self.teacher = ddp, teacher


@pytest.fixture
def ddp() -> Iterator[DistributedDataParallel]:
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield DistributedDataParallel(Student(2, 2))
    dist.destroy_process_group()


def followed(ddp: DistributedDataParallel) -> CalledBeside:
    beside = CalledBeside()
    beside.on_built(Watched(ddp.module, ddp, (), "cpu"))
    return beside


def told(beside: CalledBeside) -> list[tuple[str, int, int]]:
    """Return what was called of these classes: its name, how often, and the number of its norms."""
    own = [each for each in beside.close() if each[0] == "Student"]
    return [(name, calls, len(set(norms))) for name, calls, norms, _, _ in own]


def test_a_teacher_is_followed_from_step_to_step(ddp: DistributedDataParallel) -> None:
    teacher = copy.deepcopy(ddp.module)
    beside = followed(ddp)
    for step in range(3):
        teacher(torch.ones(1, 2))
        with torch.no_grad():
            teacher.weight.mul_(0.9)
        beside.on_step(step)
    assert beside.group == (0, 1)
    assert told(beside) == [("Student", 3, 4)]


def test_one_that_nobody_calls_is_not_told(ddp: DistributedDataParallel) -> None:
    teacher = copy.deepcopy(ddp.module)
    assert told(followed(ddp)) == []
    assert teacher.weight.shape == (2, 2)


def test_a_teacher_in_one_module_with_the_model_is_found(ddp: DistributedDataParallel) -> None:
    holder = Holder(ddp, copy.deepcopy(ddp.module))
    beside = followed(ddp)
    holder.teacher(torch.ones(1, 2))
    assert [name for name, _, _ in told(beside)] == ["Student"]


def test_what_an_optimizer_has_is_none(ddp: DistributedDataParallel) -> None:
    functions = Functions(lambda *_told: None)
    functions.install()
    other = copy.deepcopy(ddp.module)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    functions.close()
    beside = followed(ddp)
    other(torch.ones(1, 2))
    assert optimizer.param_groups
    assert told(beside) == []


def test_one_that_the_script_lets_go_of_is_gone(ddp: DistributedDataParallel) -> None:
    teacher = copy.deepcopy(ddp.module)
    beside = followed(ddp)
    weight = ref(teacher.weight)
    del teacher
    gc.collect()
    beside.on_step(0)
    assert weight() is None
    assert told(beside) == []


def test_no_hook_is_left_on_what_nobody_called(ddp: DistributedDataParallel) -> None:
    teacher = copy.deepcopy(ddp.module)
    beside = followed(ddp)
    assert vars(teacher)["_forward_pre_hooks"]
    assert told(beside) == []
    assert not vars(teacher)["_forward_pre_hooks"]
