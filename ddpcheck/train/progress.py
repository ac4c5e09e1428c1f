"""The progress of a training run: one line on a terminal, ten in a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

BAR_WIDTH = 24
LOG_LINES = 10
# A terminal shows no more; each line costs a wait for the device.
REDRAW_S = 0.2
THOUSAND = 1e3
MILLION = 1e6


class Progress:
    """Writes how far the run is; ``loss`` is called only for a line that is shown."""

    def __init__(
        self, steps: int, stream: TextIO, clock: Callable[[], float], done: int = 0
    ) -> None:
        self._steps = steps
        self._done_before = done
        self._stream = stream
        self._clock = clock
        self._started_s = clock()
        self._shown_s = float("-inf")
        self._shown_step = done
        self._on_terminal = stream.isatty()

    def show(self, step: int, tokens: int, loss: Callable[[], float]) -> None:
        """Show that ``step`` steps are done, with ``tokens`` tokens of all ranks since the start."""
        if not self._is_due(step):
            return
        value = loss()
        now_s = self._clock()
        self._shown_s, self._shown_step = now_s, step
        elapsed_s = now_s - self._started_s
        left_s = elapsed_s / (step - self._done_before) * (self._steps - step)
        rate = tokens / elapsed_s if elapsed_s > 0 else 0.0
        line = progress_line(step, self._steps, value, rate, left_s)
        last = step == self._steps
        if self._on_terminal:
            self._stream.write(f"\r{line}\x1b[K" + ("\n" if last else ""))
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def _is_due(self, step: int) -> bool:
        if step in (self._done_before + 1, self._steps):
            return True
        if self._on_terminal:
            return self._clock() - self._shown_s >= REDRAW_S
        return step * LOG_LINES // self._steps > self._shown_step * LOG_LINES // self._steps


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
