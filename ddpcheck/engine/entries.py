"""What ranks tell: the same entries travel over the channel and into the rank files."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ddpcheck import jsontext
from ddpcheck.measures.testimony import Testimony


class Present(msgspec.Struct, frozen=True, kw_only=True, tag="present"):
    """A process has come, and says who it takes itself for.

    ``blindness`` says why it sees no GPU, where the user wants one.
    """

    rank: int
    local_rank: int
    world_size: int
    host: str
    pid: int
    gpus: int
    backend: str
    launcher: str
    versions: Mapping[str, str]
    blindness: str = ""


class Began(msgspec.Struct, frozen=True, tag="began"):
    """The rank starts on a check; ``at`` is Unix time in seconds."""

    check: str
    at: float


class Measured(msgspec.Struct, frozen=True, tag="measured"):
    """The facts of one check on this rank, as plain values."""

    check: str
    facts: Any
    duration_s: float


class Skipped(msgspec.Struct, frozen=True, tag="skipped"):
    """The check had nothing to measure here."""

    check: str
    reason: str


class Crashed(msgspec.Struct, frozen=True, tag="crashed"):
    """The check's own code raised on this rank."""

    check: str
    error: str
    stack: str
    # The how-manieth of all ranks' ends and exceptions it was; 0 when nobody counted.
    order: int = 0
    # It stopped nobody: there was no process group to leave.
    went_on: bool = False


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The run cannot go on because of a user's mistake; ``message`` says what to do."""

    message: str


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The rank came to the end of a stage.

    ``unkept``: why its rank file is not whole; ``calls``: a digest of its collectives so far;
    ``midway``: it told in the middle of its script, which then will stop or continue; ``groups``:
    how many collectives it called on each group of its script's, and their digest.
    """

    stage: str
    unkept: str = ""
    calls: str = ""
    midway: str = ""
    groups: Mapping[str, str] = {}


class Testified(msgspec.Struct, frozen=True, tag="testified"):
    """The rank's sentinel said where the rank was when the run could not go on."""

    testimony: Testimony


Entry: TypeAlias = Present | Began | Measured | Skipped | Crashed | Refused | Ended | Testified

_decoder = msgspec.json.Decoder(Entry, strict=False)


def pack(entries: Iterable[Entry]) -> bytes:
    """Return the entries as JSON lines."""
    return b"".join(jsontext.encode(entry) + b"\n" for entry in entries)


def unpack(lines: bytes) -> Iterator[Entry]:
    """Yield the entries in ``lines``; a half-written last line, or garbage, is left out."""
    for line in lines.splitlines():
        try:
            yield _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue


def presence_in(told: Iterable[Entry]) -> Present | None:
    """Return who the process that told this says it is, or None."""
    return next((entry for entry in told if isinstance(entry, Present)), None)


def has_ended(told: Iterable[Entry], stage: str) -> bool:
    """Return whether the rank that told this has come to the end of the stage."""
    return any(isinstance(entry, Ended) and entry.stage == stage for entry in told)


class Journal:
    """One rank's file of entries, appended to while the run goes on."""

    def __init__(self, run_dir: Path, rank: int) -> None:
        self.path = run_dir / "ranks" / f"{rank}.jsonl"
        self.broken = ""
        self._size_bytes = 0
        # Once: a run directory that is discarded later must not come back.
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, entries: Iterable[Entry]) -> None:
        """Append the entries; a full disk or a lost directory must not end the run."""
        try:
            with self.path.open("ab") as file:
                if file.tell() < self._size_bytes:
                    self.broken = f"{self.path} was removed or cut while the run went on"
                self._size_bytes = file.tell() + file.write(pack(entries))
        except OSError as error:
            self.broken = str(error)
