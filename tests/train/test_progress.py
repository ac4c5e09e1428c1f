import io
from collections.abc import Callable

import pytest
import torch

from ddpcheck.train.late import Late
from ddpcheck.train.progress import Progress, progress_line, short_count


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ticking(tick_s: float) -> Callable[[], float]:
    now_s = 0.0

    def clock() -> float:
        nonlocal now_s
        now_s += tick_s
        return now_s

    return clock


def run(stream: io.StringIO, steps: int, tick_s: float = 1.0, done: int = 0) -> str:
    progress = Progress(steps, stream, ticking(tick_s), done)
    for step in range(done + 1, steps + 1):
        progress.show(step, (step - done) * 100, torch.tensor(2.5))
    return stream.getvalue()


def test_the_line_tells_how_far_how_good_how_fast_how_long() -> None:
    line = progress_line(75, 300, 2.3456, 50_000.0, 9.0)
    assert line == "train [######..................] 75/300  loss 2.346  50k tokens/s  9 s left"


def test_a_log_gets_a_line_for_every_tenth() -> None:
    lines = run(io.StringIO(), 300).splitlines()
    assert len(lines) == 11
    assert "1/300" in lines[0]
    assert "30/300" in lines[1]
    assert "300/300" in lines[-1]


def test_a_short_run_is_logged_step_by_step() -> None:
    assert len(run(io.StringIO(), 3).splitlines()) == 3


def test_a_terminal_has_one_line_that_is_ended_once() -> None:
    written = run(Terminal(), 50)
    assert written.count("\r") == 50
    assert written.count("\n") == 1
    assert written.endswith("\n")


def test_a_terminal_is_not_redrawn_faster_than_anyone_reads() -> None:
    assert run(Terminal(), 100, tick_s=0.01).count("\r") < 20


def test_a_line_whose_loss_is_not_there_yet_waits_for_the_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Late, "is_there", False)
    log = io.StringIO()
    progress = Progress(2, log, ticking(1.0))
    progress.show(1, 100, torch.tensor(2.5))
    assert not log.getvalue()
    progress.show(2, 200, torch.tensor(1.5))
    first, last = log.getvalue().splitlines()
    assert "1/2  loss 2.500" in first
    assert "2/2  loss 1.500" in last


def test_counts_are_short() -> None:
    assert [short_count(n) for n in (950, 52_300, 1_250_000)] == ["950", "52k", "1.2M"]


def test_a_resumed_run_is_as_fast_as_it_is_now() -> None:
    lines = run(io.StringIO(), 300, done=200).splitlines()
    assert "201/300" in lines[0]
    assert "300/300" in lines[-1]
    assert len(lines) == 5
    # One second a step: the clock is read once a line, and once before.
    assert "99 s left" in lines[0]
    assert "100 tokens/s" in lines[0]
