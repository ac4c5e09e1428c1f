"""The black box: what its writer's death leaves behind."""

import os
import signal
from pathlib import Path

import pytest

from ddpcheck.engine.blackbox import CALL_SLOTS, SLOT_BYTES, BlackBox, Flight, read_box


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "0.box"


def test_a_box_that_was_never_written_tells_nothing(path: Path) -> None:
    assert read_box(path) == Flight()
    BlackBox(path)
    assert read_box(path) == Flight()


def test_a_neighbour_reads_what_the_rank_itself_would_say(path: Path) -> None:
    box = BlackBox(path)
    box.enter_check("collectives/wrong-values")
    box.leave_call(box.enter_call("all_reduce SUM float32[7]", "reduction.py:1"))
    box.enter_call("broadcast float32[7]", "reduction.py:2")
    flight = read_box(path)
    assert flight == box.flight
    assert [(call.number, call.done) for call in flight.calls] == [(1, True), (2, False)]


def test_only_the_last_calls_are_kept(path: Path) -> None:
    box = BlackBox(path)
    for _ in range(CALL_SLOTS + 3):
        box.leave_call(box.enter_call("barrier", ""))
    assert [call.number for call in read_box(path).calls] == list(range(4, CALL_SLOTS + 4))
    assert read_box(path).calls == box.flight.calls


def test_a_killed_writer_leaves_its_last_call(path: Path) -> None:
    child = os.fork()
    if child == 0:
        box = BlackBox(path)
        box.enter_check("rehearsal/training")
        box.enter_call("all_reduce SUM float32[7]", "train.py:9")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    flight = read_box(path)
    assert flight.check == "rehearsal/training"
    assert [call.site for call in flight.calls] == ["train.py:9"]


@pytest.mark.parametrize("garbage", [b"", b"\xff" * 40, b'[1,"x', b"\0" * SLOT_BYTES, b"[1]" * 99])
def test_a_half_written_slot_is_left_out(path: Path, garbage: bytes) -> None:
    box = BlackBox(path)
    box.enter_check("network/a")
    box.enter_call("barrier", "a")
    box.enter_call("barrier", "b")
    content = bytearray(path.read_bytes())
    at = SLOT_BYTES * 2
    content[at : at + SLOT_BYTES] = garbage[:SLOT_BYTES].ljust(SLOT_BYTES, b"\0")
    path.write_bytes(content)
    assert read_box(path).check == "network/a"
    assert [call.site for call in read_box(path).calls] == ["b"]


def test_a_long_description_does_not_reach_into_the_next_slot(path: Path) -> None:
    box = BlackBox(path)
    box.enter_call("all_reduce SUM float32" + "[9]" * SLOT_BYTES, "")
    box.enter_call("barrier", "")
    assert [call.number for call in read_box(path).calls][-1] == 2


def test_a_box_without_a_file_still_remembers(tmp_path: Path) -> None:
    box = BlackBox(tmp_path / "no" / "such" / "folder.box")
    box.enter_call("barrier", "")
    assert [call.what for call in box.flight.calls] == ["barrier"]


def test_the_digest_is_that_of_all_calls_in_order() -> None:
    one, same, other = BlackBox(None), BlackBox(None), BlackBox(None)
    for box, calls in ((one, "ab"), (same, "ab"), (other, "ba")):
        for what in calls:
            box.leave_call(box.enter_call(what, ""))
    assert one.digest == same.digest != other.digest
