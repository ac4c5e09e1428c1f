"""Run the ddpcheck command on real ranks, and read what it reported.

Importing torch takes longer than most runs. So the commands of one test process run one after
the other in one server process: it keeps the fork server that ddpcheck starts for its ranks,
and with it the import. The ranks are processes of their own all the same.
"""

from __future__ import annotations

import ctypes
import json
import logging
import multiprocessing
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from ddpcheck.report import Report, read_report

# Far above what any case takes on a busy machine: a run that hangs fails its test.
LIMIT_S = 90.0
TESTS = Path(__file__).parent
# Ranks on a few cores are fastest with one thread each, as torchrun sets it.
QUIET = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
# Names the process that holds a made host open; a rank is to run there.
HOST = "TESTS_HOST"
OF_A_LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Ended:
    """How a command ended; ``exit_codes`` has one for each process that was started."""

    exit_codes: tuple[int, ...]
    stdout: str
    stderr: str
    took_s: float
    report_dir: Path

    @property
    def exit_code(self) -> int:
        """Return the exit code of the one process."""
        (code,) = self.exit_codes
        return code

    @property
    def report(self) -> Report:
        """Return the newest report; raises ReportError when there is none."""
        return read_report(self.report_dir / "latest")

    def found(self) -> dict[str, str]:
        """Return the severity of each finding, by id; info is left out."""
        told = [each for each in self.report.findings if each.severity != "info"]
        return {each.id: each.severity.value for each in told}

    @property
    def own_lines(self) -> list[str]:
        """Return the lines that ddpcheck wrote to stderr in its own name."""
        return [line for line in self.stderr.splitlines() if line.startswith("ddpcheck: ")]


def target(place: str) -> str:
    """Return ``folder/file:factory`` under ``tests`` as the command's --target."""
    file, _, factory = place.partition(":")
    return f"{TESTS / file}.py:{factory}"


def run(report_dir: Path, *options: str) -> Ended:
    """Run ``ddpcheck run``, which starts two local ranks."""
    return _ask(["run", *short(report_dir), *options], report_dir, [])


def watch(report_dir: Path, *words: str) -> Ended:
    """Run ``ddpcheck watch``, which starts two local ranks; ``words`` end with a script."""
    return _ask(["watch", "--report-dir", str(report_dir), *words], report_dir, [])


def run_by_hand(
    report_dir: Path, environments: Sequence[Mapping[str, str]], *options: str
) -> Ended:
    """Start ``ddpcheck run`` once for each environment, as a launcher that is no torchrun does."""
    return _ask(["run", *short(report_dir), *options], report_dir, environments)


def run_under_torchrun(report_dir: Path, *options: str) -> Ended:
    """Run ``torchrun ... -m ddpcheck run`` with two ranks."""
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    return command(report_dir, *launcher, "-m", "ddpcheck", "run", *short(report_dir), *options)


def command(report_dir: Path, *words: str, **environment: str) -> Ended:
    """Run ``python -m WORDS`` in a process of its own."""
    return _by_itself(report_dir, [sys.executable, "-m", *words], environment)


def run_behind(prefix: Sequence[str], report_dir: Path, *options: str, **environment: str) -> Ended:
    """Run ``ddpcheck run`` in a process of its own, behind a command that prepares its way.

    ``prefix`` runs the command that follows it: a shell that lowers a limit, say.
    """
    words = [sys.executable, "-m", "ddpcheck", "run", *short(report_dir), *options]
    return _by_itself(report_dir, [*prefix, *words], environment)


def watch_behind(prefix: Sequence[str], report_dir: Path, *words: str) -> Ended:
    """Run ``ddpcheck watch`` in a process of its own, behind such a command."""
    asked = [sys.executable, "-m", "ddpcheck", "watch", "--report-dir", str(report_dir), *words]
    return _by_itself(report_dir, [*prefix, *asked], {})


def _by_itself(report_dir: Path, words: list[str], environment: Mapping[str, str]) -> Ended:
    began = time.monotonic()
    done = subprocess.run(
        words,
        cwd=report_dir.parent,
        env={**clean_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    took_s = time.monotonic() - began
    return Ended((done.returncode,), done.stdout, done.stderr, took_s, report_dir)


def free_port() -> int:
    """Return a TCP port that nobody listens on, of those that the kernel hands out to nobody.

    Any other might be taken, by a connection of a test beside this one, before it is used.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = lowest // 2 + secrets.randbelow(lowest // 2)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def by_hand(rank: int, world_size: int, port: int) -> dict[str, str]:
    """Return the variables that a launch script sets for one rank."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def short(report_dir: Path) -> list[str]:
    """Return the options of a quick run that reports there."""
    return ["--profile", "quick", "--report-dir", str(report_dir)]


def clean_environment() -> dict[str, str]:
    """Return this process's variables, but for those of launchers."""
    given = os.environ.items()
    kept = {n: v for n, v in given if n not in OF_A_LAUNCHER and not n.startswith("DDPCHECK_")}
    return kept | QUIET


def _ask(words: list[str], report_dir: Path, environments: Sequence[Mapping[str, str]]) -> Ended:
    began = time.monotonic()
    codes, stdout, stderr = server().ask(words, environments)
    return Ended(tuple(codes), stdout, stderr, time.monotonic() - began, report_dir)


@cache
def server(**environment: str) -> Server:
    """Return this process's server, in an environment with these variables."""
    return Server(environment)


class Server:
    """The client's end of the server process, which ends when this process does."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**clean_environment(), **environment},
            text=True,
            start_new_session=True,
        )

    def processes(self) -> list[int]:
        """Return the pids of all living processes that come from the server."""
        return [pid for pid in psutil.pids() if _session_of(pid) == self._process.pid]

    def helpers(self) -> set[int]:
        """Return the pids of the processes that it keeps: itself, fork server and tracker."""
        return {self._process.pid, *(c.pid for c in psutil.Process(self._process.pid).children())}

    def ask(
        self, words: list[str], environments: Sequence[Mapping[str, str]]
    ) -> tuple[list[int], str, str]:
        """Return exit codes, stdout and stderr of the command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([words, [dict(one) for one in environments]]) + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], LIMIT_S)
        if not ready:
            os.killpg(self._process.pid, signal.SIGKILL)
            server.cache_clear()
            raise TimeoutError(f"no end within {LIMIT_S:.0f} s: ddpcheck {' '.join(words)}")
        codes, stdout, stderr = json.loads(self._process.stdout.readline())
        return codes, stdout, stderr


def _session_of(pid: int) -> int:
    try:
        zombie = psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        return 0 if zombie else os.getsid(pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return 0


def serve() -> None:
    """Carry out the commands that stand on stdin, and answer each on stdout."""
    answers = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory() as folder:
        written = [_redirected(Path(folder) / str(number), number) for number in (1, 2)]
        for line in sys.stdin:
            words, environments = json.loads(line)
            codes = _together(words, environments) if environments else [_main(words)]
            sys.stdout.flush()
            sys.stderr.flush()
            texts = [file.read_text(errors="replace") for file in written]
            for file in written:
                os.truncate(file, 0)
            answers.write(json.dumps([codes, *texts]) + "\n")
            answers.flush()


def _redirected(file: Path, number: int) -> Path:
    """Let the descriptor be a file: the ranks inherit it, and all write at its end."""
    with file.open("ab") as opened:
        os.dup2(opened.fileno(), number)
    return file


def _main(words: list[str]) -> int:
    """Return the exit code of ``ddpcheck WORDS``, run in this process."""
    from ddpcheck.cli import main

    try:
        return main(words)
    except SystemExit as end:
        return int(end.code or 0)
    except Exception:
        # As Python does, to stderr.
        logging.getLogger(__name__).exception("ddpcheck raised")
        return 1


def _together(words: list[str], environments: Sequence[Mapping[str, str]]) -> list[int]:
    """Run the command in one process for each environment; return their exit codes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ddpcheck.launch.preload"])
    processes = [context.Process(target=_be, args=(words, one)) for one in environments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode or 0 for process in processes]


def _be(words: list[str], environment: Mapping[str, str]) -> None:
    told = dict(environment)
    _enter(told.pop(HOST, ""))
    os.environ.update(told)
    code = _main(words)
    sys.stdout.flush()
    sys.exit(code)


def _enter(pid: str) -> None:
    """Move this process, which has one thread as yet, to the made host that this process holds."""
    here = Path.cwd()
    enter = ctypes.CDLL(None, use_errno=True).setns
    for kind in ("net", "uts", "mnt") if pid else ():
        with Path(f"/proc/{pid}/ns/{kind}").open() as namespace:
            if enter(namespace.fileno(), 0):
                raise OSError(ctypes.get_errno(), f"cannot enter {namespace.name}")
    os.chdir(here)


if __name__ == "__main__":
    serve()
