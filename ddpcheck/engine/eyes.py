"""What looks on while a user's script runs: torch's extension points, and its collectives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ddpcheck.engine.blackbox import BlackBox
from ddpcheck.engine.groups import Groups
from ddpcheck.watch.calls import recorded_calls
from ddpcheck.watch.hooks import Hooks
from ddpcheck.watch.stream import EventStream


@dataclass
class Relay:
    """Takes calls down wherever they are to be noted by now, if anywhere."""

    box: BlackBox | None = None

    def enter_call(self, what: str, site: str) -> Any:
        """Note that the main thread enters a collective."""
        return self.box.enter_call(what, site) if self.box else None

    def leave_call(self, call: Any) -> None:
        """Note that it has left this collective."""
        if self.box and call is not None:
            self.box.leave_call(call)


@dataclass(frozen=True)
class Eyes:
    """What looks on, whether or not it is known yet which rank this is."""

    hooks: Hooks
    relay: Relay
    groups: Groups
    recording: AbstractContextManager[None]

    def open(self) -> None:
        """Look on from here; nobody is told until the hooks are given a stream."""
        self.hooks.install()
        self.recording.__enter__()
        self.groups.install()

    def close(self) -> None:
        """Look on no longer."""
        self.hooks.close()
        self.groups.close()
        self.recording.__exit__(None, None, None)


def eyes(steps: int = 0, on_enough: Callable[[], None] = lambda: None) -> Eyes:
    """Return what looks on, and calls ``on_enough`` after so many steps of a process that is no rank."""
    hooks, relay = Hooks(lambda _: EventStream({}), steps, on_enough), Relay()
    groups = Groups(lambda *told: hooks.stream().emit(*told), None)
    recording = recorded_calls(
        relay, groups, begins=hooks.called, returned=hooks.meetings.told, made=hooks.meetings.made
    )
    return Eyes(hooks, relay, groups, recording)
