"""The observer counts by a clock of the test's own: nothing here takes any time."""

from __future__ import annotations

from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.performance.long_wait import Kept, Observer
from ddpcheck.finding import Location
from ddpcheck.measures.waits import Place, Visit
from ddpcheck.watch.meetings import Called

LINE = Location("/train.py", 40, "prepare")


class Script:
    """A script whose parts take what the test says, on a clock that only they move."""

    def __init__(self) -> None:
        self.now = 100.0
        self.observer: Any = Observer(context_with(watches=True, clock=lambda: self.now))

    def fetch(self, seconds: float) -> None:
        self.observer.on_asked(None)
        self.now += seconds
        self.observer.on_fed(None)

    def forward(self, seconds: float) -> None:
        self.observer.on_inputs(0, None)
        self.now += seconds
        self.observer.on_loss(0, None)

    def call(self, took_s: float, before_s: float = 0.0, **more: Any) -> None:
        self.observer.on_called(
            Called("barrier", took_s, before_s, location=LINE, timeout_s=60.0, **more)
        )

    def visits(self) -> tuple[Kept, ...]:
        visits: tuple[Kept, ...] = self.observer.facts().visits
        return visits


def test_long_calls_and_calls_after_long_are_kept_with_their_number() -> None:
    script = Script()
    for took_s, before_s in ((0.1, 0.1), (7.0, 0.5), (0.1, 8.0)):
        script.call(took_s, before_s)
    assert script.visits() == (
        Kept(Place("barrier", (), 2), Visit(7.0, 0.5, "", LINE, 60.0)),
        Kept(Place("barrier", (), 3), Visit(0.1, 8.0, "", LINE, 60.0)),
    )
    assert script.observer.facts().counts == {"barrier ()": 3}


def test_calls_of_each_group_are_counted_by_themselves() -> None:
    script = Script()
    script.call(0.1)
    script.call(7.0, group=(0, 2))
    assert [each.place for each in script.visits()] == [Place("barrier", (0, 2), 1)]


def test_where_most_of_the_time_before_went_is_known() -> None:
    script = Script()
    script.fetch(6.0)
    script.forward(1.0)
    script.call(0.1, 8.0)
    script.forward(7.0)
    script.call(0.1, 8.0)
    script.fetch(1.0)
    script.call(0.1, 8.0)
    assert [each.visit.inside for each in script.visits()] == [
        "its DataLoader",
        "the forward pass",
        "",
    ]


def test_in_a_rehearsal_it_is_a_skip() -> None:
    with pytest.raises(Skip, match="ddpcheck watch"):
        Observer(context_with()).facts()
