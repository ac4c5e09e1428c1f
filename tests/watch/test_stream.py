from typing import Any

import pytest

from ddpcheck.watch.stream import EventStream


class Notes:
    """An observer that wants two events."""

    def __init__(self, told: list[Any], name: str = "") -> None:
        self._told = told
        self._name = name

    def on_batch(self, step: int, batch: Any) -> None:
        self._told.append((self._name, "batch", step, batch))

    def on_step(self, step: int) -> None:
        self._told.append((self._name, "step", step))


class Breaks(Notes):
    """An observer that raises in its second batch."""

    def on_batch(self, step: int, batch: Any) -> None:
        super().on_batch(step, batch)
        if step == 1:
            raise LookupError(batch)


def test_each_observer_gets_the_events_it_wants_in_order() -> None:
    told: list[Any] = []
    stream = EventStream({"x": Notes(told, "x"), "y": Notes(told, "y")})
    batch = object()
    stream.emit("batch", 0, batch)
    stream.emit("loss", 0, 1.5)
    stream.emit("step", 0)
    assert told == [
        ("x", "batch", 0, batch),
        ("y", "batch", 0, batch),
        ("x", "step", 0),
        ("y", "step", 0),
    ]
    assert stream.raised == {}


def test_nobody_need_listen() -> None:
    EventStream({}).emit("batch", 0, None)
    EventStream({"x": object()}).emit("step", 0)


def test_an_observer_that_raises_is_dropped_and_the_others_go_on() -> None:
    told: list[Any] = []
    stream = EventStream(
        {"before": Notes(told, "before"), "bad": Breaks(told, "bad"), "after": Notes(told, "after")}
    )
    for step in range(3):
        stream.emit("batch", step, "b")
    stream.emit("step", 2)
    assert [entry[0] for entry in told] == [
        *("before", "bad", "after"),
        *("before", "bad", "after"),
        *("before", "after"),
        *("before", "after"),
    ]
    assert list(stream.raised) == ["bad"]
    assert isinstance(stream.raised["bad"], LookupError)


def test_several_observers_may_raise_in_one_event() -> None:
    told: list[Any] = []
    stream = EventStream({name: Breaks(told, name) for name in "xyz"})
    stream.emit("batch", 1, "b")
    stream.emit("batch", 1, "b")
    assert list(stream.raised) == ["x", "y", "z"]
    assert len(told) == 3


def test_the_users_wish_to_stop_is_not_kept_back() -> None:
    class Stops:
        def on_step(self, step: int) -> None:
            raise KeyboardInterrupt(step)

    with pytest.raises(KeyboardInterrupt):
        EventStream({"x": Stops()}).emit("step", 0)


def test_the_observers_that_were_given_stay_as_they_are() -> None:
    given = {"bad": Breaks([])}
    EventStream(given).emit("batch", 1, None)
    assert list(given) == ["bad"]
