"""What ranks tell: the same entries travel over the channel and into the rank files."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ddpcheck import jsontext
from ddpcheck.measures.testimony import Agent, Testimony
from ddpcheck.secrecy.redaction import redacted


class Present(msgspec.Struct, frozen=True, kw_only=True, tag="present"):
    """A process has come, and says who it takes itself for.

    ``blindness`` says why it sees no GPU, where the user wants one; ``settings`` what must be the
    same on all ranks.
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
    settings: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


class Began(msgspec.Struct, frozen=True, tag="began", gc=False):
    """The rank starts on a check; ``at`` is Unix time in seconds."""

    check: str
    at: float


class Measured(msgspec.Struct, frozen=True, tag="measured"):
    """The facts of one check on this rank, as plain values, or as the JSON of them (bytes)."""

    check: str
    facts: Any
    duration_s: float


class Skipped(msgspec.Struct, frozen=True, tag="skipped", gc=False):
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
    how many collectives it called on each group of its script's, and their digest; ``agent``: the one
    that started the rank, where it was silent then.
    """

    stage: str
    unkept: str = ""
    calls: str = ""
    midway: str = ""
    groups: Mapping[str, str] = {}
    agent: Agent | None = None


class Testified(msgspec.Struct, frozen=True, tag="testified"):
    """The rank's sentinel said where the rank was when the run could not go on."""

    testimony: Testimony


# Higher ones take six times as long, and save as much.
LEVEL = 1
# What fits into one packet is left as it is.
SHORT_BYTES = 1024

Entry: TypeAlias = Present | Began | Measured | Skipped | Crashed | Refused | Ended | Testified


class _Sealed(msgspec.Struct, frozen=True, tag="measured"):
    """A ``Measured`` as it is read when nobody looks at its facts yet."""

    check: str
    facts: msgspec.Raw
    duration_s: float


_decoder = msgspec.json.Decoder(Entry, strict=False)
_sealing_decoder = msgspec.json.Decoder(
    Present | Began | _Sealed | Skipped | Crashed | Refused | Ended | Testified, strict=False
)


def pack(entries: Iterable[Entry]) -> bytes:
    """Return the entries as JSON lines, without secrets: they go to files and other ranks."""
    return b"".join(jsontext.encode(entry) + b"\n" for entry in redacted(list(entries)))


def packed_for_store(lines: bytes) -> bytes:
    """Return lines of entries as they travel: compressed, where there are many.

    The store holds those of all ranks, and hands each on once: of thousands that is what takes it longest.
    """
    return zlib.compress(lines, LEVEL) if len(lines) > SHORT_BYTES else lines


def unpacked_from_store(told: bytes) -> bytes:
    """Return the lines that were packed; what is no such thing, as it is."""
    with suppress(zlib.error):
        return told if told.startswith(b"{") else zlib.decompress(told)
    return told


def unpack(lines: bytes) -> Iterator[Entry]:
    """Yield the entries in ``lines``; a half-written last line, or garbage, is left out."""
    return iter(_decoded(lines, _decoder))


def unpack_sealed(blobs: Iterable[bytes]) -> Iterator[list[Entry]]:
    """Yield the entries of each rank, with facts as JSON, the same one once.

    So what thousands of ranks tell fits into memory: most of it is the same on all of them.
    """
    texts: dict[bytes, bytes] = {}
    for lines in blobs:
        yield [
            _measured(entry, texts) if isinstance(entry, _Sealed) else entry
            for entry in _decoded(lines, _sealing_decoder)
        ]


def _measured(entry: _Sealed, texts: dict[bytes, bytes]) -> Measured:
    text = bytes(entry.facts)
    return Measured(entry.check, texts.setdefault(text, text), entry.duration_s)


def _decoded(lines: bytes, decoder: msgspec.json.Decoder[Any]) -> list[Any]:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = decoder.decode_lines(lines)
        if len(told) == lines.count(b"\n"):
            return told
    return list(_readable(lines, decoder))


def _readable(lines: bytes, decoder: msgspec.json.Decoder[Any]) -> Iterator[Any]:
    for line in lines.splitlines():
        try:
            yield decoder.decode(line)
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
