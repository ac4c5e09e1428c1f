"""The observer counts by a clock of the test's own: nothing here takes any time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from contexts import context_with
from torch import nn

from ddpcheck.check import Skip
from ddpcheck.checks.performance.waits_for_one_rank import Observer
from ddpcheck.finding import Location
from ddpcheck.measures.blocks import BLOCK_STEPS, Block
from ddpcheck.watch import pace
from ddpcheck.watch.feeds import Feed
from ddpcheck.watch.meetings import Called
from ddpcheck.watch.pace import WARM_STEPS
from ddpcheck.watch.stream import EventStream

LOOP = Location("/train.py", 12, "train")


class Script:
    """A training whose parts take what the test says, on a clock that only they move."""

    def __init__(self, device: str = "cpu") -> None:
        self.now = 100.0
        self.feed = Feed(0, LOOP)
        self.observer: Any = Observer(context_with(watches=True, clock=lambda: self.now))
        self.emit = EventStream({"it": self.observer}).emit
        self.emit(
            "built", SimpleNamespace(ddp=None, device=device, loader=(), module=nn.Identity())
        )

    def fetch(self, seconds: float) -> None:
        self.emit("asked", self.feed)
        self.now += seconds
        self.emit("fed", self.feed)

    def collective(self, seconds: float, name: str = "all_reduce", **more: Any) -> None:
        self.now += seconds
        self.emit("called", Called(name, seconds, **more))

    def step(self, *, loader: float = 0.0, own: float = 0.0, called: float = 0.0) -> None:
        self.fetch(loader)
        self.collective(called)
        self.now += own
        self.emit("inputs", 0, None)
        self.now += 1.0
        self.emit("step", 0)

    def passes(
        self, *, inside: float, backward: float, after: float, entering: float = 0.0
    ) -> None:
        """Make a forward and a backward pass of one micro-batch."""
        self.emit("inputs", 0, None)
        self.now += entering
        self.emit("entered", entering)
        self.now += inside
        self.emit("loss", 0, None)
        self.collective(backward, "backward")
        self.now += after

    def blocks(self) -> tuple[Block, ...]:
        blocks: tuple[Block, ...] = self.observer.facts().blocks
        return blocks


def trained(count: int = 2 * BLOCK_STEPS, device: str = "cpu", **parts: float) -> Script:
    script = Script(device)
    for _ in range(1 + WARM_STEPS):
        script.step(loader=60.0)
    for _ in range(count):
        script.step(**parts)
    return script


def test_the_parts_of_a_step_after_the_first_ones() -> None:
    blocks = trained(loader=0.25, own=0.5, called=2.0).blocks()
    assert blocks == (Block(0.25, 0.5, 3.75, BLOCK_STEPS),) * 2


def test_the_loop_that_takes_the_most_and_the_line_of_the_model_are_known() -> None:
    facts = trained(loader=0.25).observer.facts()
    assert facts.loop == LOOP
    assert facts.forward is not None
    assert facts.own_is_sure


def test_a_collective_inside_of_a_loader_is_no_time_of_the_loader() -> None:
    script = trained()
    script.emit("asked", script.feed)
    script.now += 0.5
    script.collective(4.0)
    script.emit("fed", script.feed)
    for _ in range(BLOCK_STEPS):
        script.step()
    assert script.blocks()[-1].loader_s == 0.5 / BLOCK_STEPS


def test_several_batches_of_one_step_are_counted_together() -> None:
    script = trained(0)
    for _ in range(2 * BLOCK_STEPS):
        script.fetch(0.25)
        script.step(loader=0.25)
    assert script.blocks()[0] == Block(0.5, 0.0, 1.5, 2 * BLOCK_STEPS)


def test_what_an_evaluation_ends_with_is_no_batch() -> None:
    script = trained()
    script.emit("asked", script.feed)
    script.emit("drained", script.feed)
    script.now += 9.0
    script.emit("fed", script.feed)
    for _ in range(BLOCK_STEPS):
        script.step()
    assert script.blocks()[-1].loader_s == 0.0


def test_work_in_forward_passes_and_after_backward_passes_is_told_apart() -> None:
    script = trained(0)
    for _ in range(2 * BLOCK_STEPS):
        script.now += 0.125
        script.passes(inside=0.5, backward=8.0, after=0.25, entering=4.0)
        script.fetch(2.0)  # of the second micro-batch
        script.passes(inside=0.5, backward=8.0, after=0.25)
        script.emit("step", 0)
    assert script.blocks()[0] == Block(2.0, 0.125, 23.625, BLOCK_STEPS, 1.0, 0.5)
    facts = script.observer.facts()
    assert facts.forward != facts.backward


def test_a_collective_of_a_backward_pass_is_left_out_once() -> None:
    script = trained(0)
    for _ in range(2 * BLOCK_STEPS):
        script.emit("inputs", 0, None)
        script.now += 1.0
        script.collective(2.0)
        script.emit("called", Called("backward", 2.5))
        script.emit("step", 0)
    assert script.blocks()[0].inside_s == 0.5


def test_where_no_backward_pass_is_seen_only_work_before_the_model_is_known() -> None:
    assert {each.inside_s + each.after_s for each in trained(own=0.5).blocks()} == {0.0}


def test_parameters_spread_over_ranks_make_own_work_unsure() -> None:
    script = trained()
    spread = SimpleNamespace(placements=())
    module = SimpleNamespace(parameters=lambda: iter([spread]))
    script.emit("built", SimpleNamespace(ddp=None, device="cpu", loader=(), module=module))
    assert not script.observer.facts().own_is_sure


def test_what_is_waited_for_later_makes_own_work_unsure() -> None:
    script = trained()
    script.collective(0.0, is_async=True)
    assert not script.observer.facts().own_is_sure


def in_worker(monkeypatch: pytest.MonkeyPatch, number: int | None) -> None:
    info = None if number is None else SimpleNamespace(id=number)
    monkeypatch.setattr(pace, "get_worker_info", lambda: info)


def test_what_workers_need_for_a_batch_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    script = trained(loader=0.25)
    script.emit("epoch", script.feed)
    for worker, seconds in ((0, 2.0), (1, 4.0), (1, 6.0), (None, 50.0), (99, 50.0)):
        in_worker(monkeypatch, worker)
        script.emit("sampling")
        script.now += seconds
        script.emit("sampled", [0])
    assert script.observer.facts().batch_s == 0.25
    monkeypatch.setattr(
        script.observer, "_live", SimpleNamespace(loader=SimpleNamespace(num_workers=2))
    )
    assert script.observer.facts().batch_s == 2.0


def test_workers_of_another_loader_tell_nothing_of_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = trained(loader=0.25)
    monkeypatch.setattr(
        script.observer, "_live", SimpleNamespace(loader=SimpleNamespace(num_workers=2))
    )
    script.emit("epoch", Feed(1, LOOP))
    in_worker(monkeypatch, 0)
    script.emit("sampling")
    script.now += 3.0
    script.emit("sampled", [0])
    assert script.observer.facts().batch_s == 0.0


class Mark:
    """Stands for a place in what a GPU has to do, which it has come to, or not."""

    is_over = True

    def record(self) -> None:
        pass

    def query(self) -> bool:
        return self.is_over


@pytest.mark.parametrize(("is_over", "seconds"), [(True, 0.25), (False, 0.0)])
def test_what_a_gpu_at_work_hides_is_no_time_of_the_loader(
    monkeypatch: pytest.MonkeyPatch, is_over: bool, seconds: float
) -> None:
    monkeypatch.setattr(torch.cuda, "Event", Mark)
    monkeypatch.setattr(Mark, "is_over", is_over)
    script = trained(device="cuda:0", loader=0.25)
    assert script.blocks()[0] == Block(seconds, 0.0, 1.25, BLOCK_STEPS)
    assert not script.observer.facts().own_is_sure


def test_too_few_steps_are_a_skip() -> None:
    with pytest.raises(Skip, match="too few steps"):
        trained(BLOCK_STEPS).blocks()


def test_in_a_rehearsal_it_is_a_skip() -> None:
    with pytest.raises(Skip, match="ddpcheck watch"):
        Observer(context_with()).facts()


def test_thousands_of_collectives_of_one_step_are_all_left_out() -> None:
    script = trained(0)
    for _ in range(2 * BLOCK_STEPS):
        for _ in range(1000):
            script.collective(0.5)
        script.now += 0.25
        script.passes(inside=0.5, backward=1.0, after=0.0)
        script.emit("step", 0)
    assert (script.blocks()[0].own_s, script.blocks()[0].inside_s) == (0.25, 0.5)
