import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpcheck.engine.entries import (
    Began,
    Crashed,
    Ended,
    Entry,
    Journal,
    Measured,
    Present,
    Refused,
    Skipped,
    Testified,
    pack,
    unpack,
)
from ddpcheck.measures.testimony import Call, State, Testimony

PRESENT = Present(
    rank=1,
    local_rank=0,
    world_size=2,
    host="node0",
    pid=7,
    gpus=0,
    backend="gloo",
    launcher="torchrun",
    versions={"torch": "2.13.0"},
)
ENTRIES: list[Entry] = [
    PRESENT,
    Began("network/a", 1.5),
    Measured("network/a", {"x": [1, 2.5, None], "y": {"z": "t"}}, 0.25),
    Skipped("network/b", "no network"),
    Crashed("network/c", "ValueError: 7", "File a\n  line 3"),
    Crashed("network/c", "ValueError: 7", "File a\n  line 3", order=2, went_on=True),
    Refused("use another --target"),
    Testified(
        Testimony(
            state=State.BUSY,
            check="network/d",
            overran=True,
            stack="Thread 1",
            waits_in="barrier",
            calls=(Call(1, "all_reduce SUM float32[3]", "a.py:3"), Call(2, "barrier", done=False)),
        )
    ),
    Testified(Testimony()),
    Ended("network"),
    Ended("collectives", unkept="No space left on device", calls="9f2c"),
]


class Loss(msgspec.Struct, frozen=True):
    loss: float
    name: str = ""


def through(entry: Entry) -> Any:
    (arrived,) = unpack(pack([entry]))
    return arrived


def test_entries_come_back_as_they_were() -> None:
    assert list(unpack(pack(ENTRIES))) == ENTRIES
    assert [type(each) for each in unpack(pack(ENTRIES))] == [type(each) for each in ENTRIES]
    assert pack([]) == b""
    assert list(unpack(b"")) == []


def test_an_entry_is_one_line() -> None:
    assert pack(ENTRIES).count(b"\n") == len(ENTRIES)
    assert pack(ENTRIES).endswith(b"\n")


def test_wherever_a_file_is_cut_whole_entries_remain() -> None:
    lines = pack(ENTRIES)
    for end in range(len(lines)):
        left = list(unpack(lines[:end]))
        assert left == ENTRIES[: len(left)]
        assert len(left) >= lines[:end].count(b"\n")


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\0\0\0\0",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"Traceback (most recent call last):",
        b'{"type":"unheard of"}',
        b'{"type":"ended"}',
        b'{"type":"ended","stage":["launch"]}',
        b'{"type":"ended","stage":"\xff"}',
        b'{"type":"began","check":"a","at":"when"}',
        b'{"type":"ended","stage":"launch"} {"type":"ended","stage":"network"}',
        b"{" * 5000,
        pytest.param(
            b'{"type":"measured","check":"a","facts":' + b"[" * 5000 + b"]" * 5000 + b"}",
            id="deep",
        ),
    ],
)
def test_garbage_is_left_out_and_what_follows_is_read(garbage: bytes) -> None:
    lines = pack(ENTRIES[:2]) + garbage + b"\n" + pack(ENTRIES[2:])
    assert list(unpack(lines)) == ENTRIES


@given(st.binary(max_size=200))
def test_no_bytes_make_reading_fail(lines: bytes) -> None:
    assert isinstance(list(unpack(lines)), list)


def test_fields_of_a_newer_version_are_ignored() -> None:
    assert list(unpack(b'{"type":"ended","stage":"launch","mood":"good"}\n')) == [Ended("launch")]


def test_files_of_a_version_that_counted_nothing_are_read() -> None:
    lines = (
        b'{"type":"ended","stage":"launch"}\n{"type":"crashed","check":"a","error":"e","stack":""}'
    )
    assert list(unpack(lines)) == [Ended("launch", "", ""), Crashed("a", "e", "", 0)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e-320, 1.7e308])
def test_any_number_can_be_told(value: float) -> None:
    arrived = through(Measured("a", {"loss": value}, 0.1))
    facts = msgspec.convert(arrived.facts, Loss, strict=False)
    assert str(facts.loss) == str(value)


def test_a_text_that_reads_like_a_number_stays_a_text() -> None:
    for text in ("nan", "1.5", "inf", "null", "true", ""):
        arrived = through(Measured("a", {"loss": 1.0, "name": text}, 0.1))
        assert msgspec.convert(arrived.facts, Loss, strict=False).name == text


@given(st.text(st.characters(), max_size=40))
def test_any_text_can_be_told(text: str) -> None:
    arrived = through(Crashed(text, text, text))
    shown = text.encode(errors="backslashreplace").decode()
    assert arrived == Crashed(shown, shown, shown)


def test_half_a_character_of_a_command_line_can_be_told() -> None:
    assert through(Refused("--target caf\udce9.py")).message == r"--target caf\udce9.py"


@pytest.mark.parametrize("text", ["two\nlines", "a\rb", "a\r\nb", "\x85\u2028\u2029", "\0"])
def test_line_ends_inside_a_text_do_not_end_the_entry(text: str) -> None:
    assert through(Crashed("a", text, text)) == Crashed("a", text, text)


def test_a_journal_keeps_what_each_write_added(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run", 3)
    journal.write(ENTRIES[:3])
    assert list(unpack(journal.path.read_bytes())) == ENTRIES[:3]
    journal.write([])
    journal.write(ENTRIES[3:])
    assert list(unpack(journal.path.read_bytes())) == ENTRIES
    assert journal.path == tmp_path / "run" / "ranks" / "3.jsonl"
    assert journal.broken == ""


def test_a_journal_goes_on_where_a_process_before_it_was_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 0)
    journal.write(ENTRIES[:1])
    journal.path.write_bytes(journal.path.read_bytes() + b'{"type":"beg\n')
    Journal(tmp_path, 0).write(ENTRIES[1:])
    assert list(unpack(journal.path.read_bytes())) == ENTRIES


def test_a_journal_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "ranks").write_text("a file where the folder should be")
    journal = Journal(tmp_path, 0)
    journal.write(ENTRIES)
    assert journal.broken


@pytest.mark.parametrize("left", [None, b"", b'{"type":'])
def test_a_journal_whose_file_was_removed_or_cut_says_so(
    tmp_path: Path, left: bytes | None
) -> None:
    journal = Journal(tmp_path, 0)
    journal.write(ENTRIES[:3])
    journal.path.unlink()
    if left is not None:
        journal.path.write_bytes(left)
    journal.write(ENTRIES[3:])
    assert "removed or cut" in journal.broken
