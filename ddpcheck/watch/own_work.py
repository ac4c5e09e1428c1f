"""What a rank does by itself in a step, and where in it: waits for others are left out."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum


class Part(IntEnum):
    """The part of a step: before the model is first called, in a forward pass, after a backward."""

    BEFORE, INSIDE, AFTER = range(3)


# Of what was left out so many are remembered: what is nested in a call ends just before it.
KEPT_CALLS = 64


class OwnWork:
    """Adds up the seconds of a step's parts, from the end of one step to the end of the next."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._since = self._clock()
        self._part = Part.BEFORE
        self._seconds = [0.0, 0.0, 0.0]
        self._has_gone_in = self._has_gone_back = False
        self._left_out: list[tuple[float, float]] = []  # when it began, and how long it was
        self._longer_ago_s = 0.0

    def leave_out(self, took_s: float) -> None:
        """Leave out what took so long and has just ended, with all that was in it."""
        now = self._clock()
        began = max(now - took_s, self._since)
        while self._left_out and self._left_out[-1][0] >= began:
            self._left_out.pop()
        self._left_out.append((began, now - began))
        # A script may call collectives for hours without a step.
        if len(self._left_out) > KEPT_CALLS:
            self._longer_ago_s += self._left_out.pop(0)[1]

    def goes_in(self) -> None:
        """Note that the model is called."""
        if self._part is not Part.INSIDE:
            self._go_on(Part.INSIDE)
            self._has_gone_in = True

    def goes_back(self) -> None:
        """Note that a backward pass has ended."""
        if self._has_gone_in:
            self._go_on(Part.AFTER)
            self._has_gone_back = True

    def ended(self) -> tuple[float, float, float]:
        """Return the seconds of the parts, and begin the next step.

        Nothing is known of what was before a model that nobody saw called, nor of the rest where no
        backward pass was seen: in it a rank waits for others.
        """
        self._go_on(Part.BEFORE)
        before_s, inside_s, after_s = self._seconds
        has_gone_in, has_gone_back = self._has_gone_in, self._has_gone_back
        self._begin()
        rest = (inside_s, after_s) if has_gone_back else (0.0, 0.0)
        return (before_s if has_gone_in else 0.0, *rest)

    def _go_on(self, part: Part) -> None:
        now = self._clock()
        left_out_s = self._longer_ago_s + sum(seconds for _, seconds in self._left_out)
        took_s = now - self._since - left_out_s
        self._seconds[self._part] += max(0.0, took_s)
        self._part, self._since = part, now
        self._left_out, self._longer_ago_s = [], 0.0
