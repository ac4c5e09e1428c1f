"""Where checkpoints lie: each in a folder of its own, which has its name only once it is whole.

A kill at any moment leaves the last whole one. What is being written, or removed, is in a folder
of another name, and one rename makes it a checkpoint, or none. So nothing else has to be written
to say which one counts: the newest folder does.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ddpcheck import jsontext
from ddpcheck.errors import UsageError
from ddpcheck.train.manifest import FORMAT_VERSION, Manifest, Seal

MANIFEST = "manifest.json"
NAME = re.compile(r"step-(\d{8})")
BEING_WRITTEN = ".writing"
BEING_REMOVED = ".removing"
# The last one, and one to fall back on where a disk has damaged that.
KEPT = 2
CHUNK_BYTES = 1 << 20


class _Versioned(msgspec.Struct):
    format_version: int


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of one training below ``path``; only ``draft`` is for all ranks."""

    path: Path

    def prepare(self) -> None:
        """Make the folder; raises UsageError if nothing can be written there."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        if not os.access(self.path, os.W_OK):
            raise UsageError(f"cannot write to {self.path}: choose another --checkpoint-dir")

    def latest(self) -> Path | None:
        """Return the newest checkpoint; None where there is none."""
        return next(iter(self._newest_first()), None)

    def draft(self, step: int) -> Path:
        """Return where the checkpoint of ``step`` is put together."""
        return self.named(step).with_suffix(BEING_WRITTEN)

    def named(self, step: int) -> Path:
        """Return where the checkpoint of ``step`` lies once it is whole."""
        return self.path / f"step-{step:08}"

    def begin(self, step: int) -> None:
        """Make the folder for the parts of a new checkpoint, and clear what kills have left."""
        with writing(self.path):
            for rest in (BEING_WRITTEN, BEING_REMOVED):
                for folder in self.path.glob(f"step-*{rest}"):
                    shutil.rmtree(folder)
            self.draft(step).mkdir()

    def complete(self, step: int, manifest: Manifest) -> None:
        """Make the parts, all of which are on the disk, the newest checkpoint; remove old ones."""
        draft = self.draft(step)
        with writing(draft):
            files = {file.name: sealed(file) for file in draft.iterdir()}
            whole = msgspec.structs.replace(manifest, files=files)
            write_durably(draft / MANIFEST, jsontext.indented(whole))
            _sync(draft)
            draft.rename(self.named(step))
            _sync(self.path)
        self._remove_after(KEPT)

    def clear(self) -> None:
        """Remove all checkpoints."""
        self._remove_after(0)

    def _newest_first(self) -> list[Path]:
        return sorted((each for each in self._folders() if NAME.fullmatch(each.name)), reverse=True)

    def _folders(self) -> list[Path]:
        return [each for each in self.path.iterdir() if each.is_dir()] if self.path.is_dir() else []

    def _remove_after(self, kept: int) -> None:
        # The new one is there: that an old one cannot be removed is no reason to end a training.
        for old in self._newest_first()[kept:]:
            with suppress(OSError):
                shutil.rmtree(old.rename(old.with_suffix(BEING_REMOVED)))


def whole_manifest(folder: Path) -> Manifest:
    """Return the manifest of a checkpoint, whose files have all been found to be as it says.

    Reads all of them. Raises UsageError, which names the file, where they are not.
    """
    manifest = read_manifest(folder)
    for name, seal in manifest.files.items():
        if (damage := _damage(folder / name, seal)) != "":
            raise UsageError(
                f"the checkpoint {folder} is damaged: {name} {damage}; remove it to resume from the "
                "one before"
            )
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Return what a checkpoint says of itself; raises UsageError if it is none of ddpcheck's."""
    file = folder / MANIFEST
    try:
        content = file.read_bytes()
        version = jsontext.decode(content, _Versioned).format_version
        if version != FORMAT_VERSION:
            raise UsageError(f"{file} has format version {version}; this is for {FORMAT_VERSION}")
        return jsontext.decode(content, Manifest)
    except OSError as error:
        raise UsageError(
            f"{folder} is no checkpoint of ddpcheck train: {_reason(error)}"
        ) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"cannot read {file}: {error}") from error


def sealed(file: Path) -> Seal:
    """Return the length of a file and its CRC-32; raises OSError."""
    size_bytes = crc32 = 0
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            size_bytes += len(chunk)
            crc32 = zlib.crc32(chunk, crc32)
    return Seal(size_bytes, crc32)


def write_durably(file: Path, content: bytes) -> None:
    """Write a file that a crash of the machine does not empty again; raises OSError."""
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Turn an OSError into a UsageError that names what could not be written."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {_reason(error)}; choose another --checkpoint-dir"
        ) from error


def _damage(file: Path, seal: Seal) -> str:
    try:
        found = sealed(file)
    except OSError as error:
        return f"cannot be read ({_reason(error)})"
    if found.size_bytes != seal.size_bytes:
        return f"has {found.size_bytes} bytes instead of {seal.size_bytes}"
    return "" if found == seal else "has other contents than were written"


def _reason(error: OSError) -> str:
    return f"{error.filename or ''} {error.strerror}".strip()


def _sync(folder: Path) -> None:
    """Let the names in a folder be on the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
