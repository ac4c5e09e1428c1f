"""The progress of a training run: one line on a terminal, ten in a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from torch import Tensor

from ddpcheck.train.late import Late

BAR_WIDTH = 24
LOG_LINES = 10
# A terminal shows no more.
REDRAW_S = 0.2
THOUSAND = 1e3
MILLION = 1e6


@dataclass(frozen=True)
class Shown:
    """What is shown of a step: ``tokens`` are those since the start, of all ranks."""

    step: int
    tokens: int
    elapsed_s: float
    loss: Late


class Progress:
    """Writes how far the run is.

    A line whose loss the device has yet to compute comes with the next call, unless it is the last.
    """

    def __init__(
        self, steps: int, stream: TextIO, clock: Callable[[], float], done: int = 0
    ) -> None:
        self._steps = steps
        self._done_before = done
        self._stream = stream
        self._clock = clock
        self._started_s = clock()
        self._due_s = float("-inf")
        self._due_step = done
        self._next: Shown | None = None
        self._on_terminal = stream.isatty()

    def show(self, step: int, tokens: int, loss: Tensor) -> None:
        """Show that ``step`` steps are done, with ``tokens`` tokens of all ranks since the start."""
        if self._next is not None:
            self._write(self._next)
            self._next = None
        if not self._is_due(step):
            return
        self._due_s, self._due_step = self._clock(), step
        shown = Shown(step, tokens, self._due_s - self._started_s, Late(loss))
        if shown.loss.is_there or step == self._steps:
            self._write(shown)
        else:
            self._next = shown

    def _write(self, shown: Shown) -> None:
        done = shown.step - self._done_before
        left_s = shown.elapsed_s / done * (self._steps - shown.step)
        rate = shown.tokens / shown.elapsed_s if shown.elapsed_s > 0 else 0.0
        line = progress_line(shown.step, self._steps, shown.loss.read(), rate, left_s)
        last = shown.step == self._steps
        if self._on_terminal:
            self._stream.write(f"\r{line}\x1b[K" + ("\n" if last else ""))
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def _is_due(self, step: int) -> bool:
        if step in (self._done_before + 1, self._steps):
            return True
        if self._on_terminal:
            return self._clock() - self._due_s >= REDRAW_S
        return step * LOG_LINES // self._steps > self._due_step * LOG_LINES // self._steps


def progress_line(step: int, steps: int, loss: float, tokens_per_s: float, left_s: float) -> str:
    """Return the line for ``step`` of ``steps``."""
    done = BAR_WIDTH * step // steps
    bar = "#" * done + "." * (BAR_WIDTH - done)
    return (
        f"train [{bar}] {step}/{steps}  loss {loss:.3f}  "
        f"{short_count(tokens_per_s)} tokens/s  {left_s:.0f} s left"
    )


def short_count(value: float) -> str:
    """Return a count as people say it: 950, 52k, 1.3M."""
    if value < THOUSAND:
        return f"{value:.0f}"
    return f"{value / THOUSAND:.0f}k" if value < MILLION else f"{value / MILLION:.1f}M"
