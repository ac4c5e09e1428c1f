"""A probe run on several made hosts at once, with a store that is a folder: no torch, no run."""

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from contexts import context_with
from hosts import Host

from ddpcheck.catalogue import check_named
from ddpcheck.check import Skip
from ddpcheck.finding import Finding

LIMIT_S = 60.0
TESTS = Path(__file__).parent


class FolderStore:
    """A store for the processes of one machine: each key is a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, key: str) -> Path:
        return self._folder / quote(key, safe="")

    def set(self, key: str, value: str, /) -> None:
        whole = self._file(f"{key}.new")
        whole.write_text(value)
        whole.rename(self._file(key))

    def get(self, key: str, /) -> bytes:
        return self._file(key).read_bytes()

    def add(self, key: str, amount: int, /) -> int:
        with self._file(key).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            total = int(file.read() or 0) + amount
            file.truncate(0)
            file.write(str(total))
            return total

    def check(self, keys: list[str], /) -> bool:
        return all(self._file(key).exists() for key in keys)

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        return [self.get(key) for key in keys]


def probed(
    check: str,
    hosts: Sequence[Host],
    folder: Path,
    *,
    ranks_per_host: int = 1,
    absent: int = 0,
    environ: Mapping[str, str] | None = None,
    env_per_host: Sequence[Mapping[str, str]] = (),
    **changes: str,
) -> dict[int, Any]:
    """Return the facts of every rank by a check such as "network/unreachable-peer".

    A rank that skips has the reason, a text, in place of facts. ``absent`` ranks never come.
    ``changes`` are further fields of the context.
    """
    store = folder / "store"
    store.mkdir(parents=True)
    world_size = len(hosts) * ranks_per_host
    environ = {"MASTER_ADDR": hosts[0].address, **(environ or {})}
    environs = [{**environ, **each} for each in env_per_host or [{}] * len(hosts)]
    with ExitStack() as stack:
        processes = {
            rank: stack.enter_context(
                hosts[rank // ranks_per_host].start(
                    [
                        *(sys.executable, str(Path(__file__)), check, str(store)),
                        *(str(rank), str(world_size)),
                        *(json.dumps(environs[rank // ranks_per_host]), json.dumps(changes)),
                    ],
                    env={"PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS.parent)))},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            for rank in range(world_size - absent)
        }
        told = {rank: _line(process) for rank, process in processes.items()}
        for process in processes.values():
            assert process.stdin is not None
            process.stdin.close()
    facts_type = _module(check).Facts
    return {
        rank: answer if isinstance(answer, str) else msgspec.convert(answer, facts_type)
        for rank, answer in told.items()
    }


def judged(check: str, facts: Mapping[int, Any]) -> list[Finding]:
    """Return what a run would find, by the facts of its ranks; skipped ones have none."""
    measured = {rank: each for rank, each in facts.items() if not isinstance(each, str)}
    return check_named(check).judge(measured)


def found_by(check: str, hosts: Sequence[Host], folder: Path, **options: Any) -> list[Finding]:
    """Return what a check finds on these hosts; ``options`` are those of ``probed``."""
    return judged(check, probed(check, hosts, folder, **options))


def said(found: Sequence[Finding]) -> list[tuple[str, str, tuple[int, ...]]]:
    """Return the id, severity and ranks of each finding."""
    return [(each.id, each.severity.value, tuple(each.ranks)) for each in found]


def _line(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the probe raised: see stderr"
    return json.loads(line)


def _module(check: str) -> Any:
    return import_module(f"ddpcheck.checks.{check.replace('/', '.').replace('-', '_')}")


def _main(check: str, store: str, *texts: str) -> None:
    """Tell one rank's facts, and live on, as ranks do, until all have told theirs."""
    rank, world_size, environ, changes = map(json.loads, texts)
    context = context_with(
        rank=rank,
        world_size=world_size,
        host=socket.gethostname(),
        environ=environ,
        store=FolderStore(Path(store)),
        **changes,
    )
    try:
        told = msgspec.to_builtins(_module(check).probe(context))
    except Skip as skip:
        told = str(skip)
    print(json.dumps(told), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _main(*sys.argv[1:])
