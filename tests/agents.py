"""Agents of torchrun that meet on this machine, as on hosts of their own, each with one rank."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from real_ranks import LIMIT_S, clean_environment, free_port

from ddpcheck.report import Report, read_report

LOOK_S = 0.05
LAST_WORDS_S = 10.0
# Agents agree quickly that one is lost, and wait a little for another one: both start at once.
QUICK = "last_call_timeout=8,keep_alive_interval=1,keep_alive_max_attempt=3"


@dataclass
class Job:
    """An elastic job of one or two agents, that watches ``train.py`` in this folder."""

    folder: Path
    options: tuple[str, ...]
    environment: Mapping[str, str]
    port: int = field(default_factory=free_port)
    agents: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    _seen_dead_at: float = 0.0

    def start(self) -> subprocess.Popen[bytes]:
        """Start one more agent; the first one hosts the rendezvous."""
        number = len(self.agents)
        launcher = [
            *("-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1"),
            *("--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-id", "job"),
            *(
                "--rdzv-endpoint",
                f"127.0.0.1:{self.port}",
                "--rdzv-conf",
                f"{QUICK},is_host={int(not number)}",
            ),
            *("--local-addr", f"127.0.0.{number + 1}"),
        ]
        watch = ("-m", "ddpcheck", "watch", "--steps", "0", *self.options, "train.py")
        with (self.folder / f"out-{number}").open("wb") as out:
            agent = subprocess.Popen(
                [sys.executable, *launcher, *watch],
                cwd=self.folder,
                env={**clean_environment(), "GLOO_SOCKET_IFNAME": "lo", **self.environment},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.agents.append(agent)
        return agent

    def output(self) -> str:
        """Return what all agents and ranks have written."""
        return "".join(file.read_text() for file in sorted(self.folder.glob("out-*")))

    def wait_for(self, words: str, count: int = 1) -> None:
        """Return once these words were written so often."""
        self.wait_until(lambda: self.output().count(words) >= count, words)

    def wait_for_reports(self, count: int) -> list[Report]:
        """Return the reports, in order, once there are so many."""
        self.wait_until(lambda: len(self._reports()) >= count, f"{count} reports")
        return [read_report(file.parent) for file in self._reports()]

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Return once it is so; raises AssertionError when that takes too long, or no agent lives."""
        until = time.monotonic() + LIMIT_S
        while not is_so():
            if time.monotonic() > until or not self._lives():
                raise AssertionError(f"no {what} in:\n{self.output()}")
            time.sleep(LOOK_S)

    def _lives(self) -> bool:
        # Their last words may have been written since.
        alive = any(agent.poll() is None for agent in self.agents)
        self._seen_dead_at = 0.0 if alive else self._seen_dead_at or time.monotonic()
        return alive or time.monotonic() - self._seen_dead_at < LAST_WORDS_S

    def _reports(self) -> list[Path]:
        return sorted(self.folder.glob("reports/ddpcheck-*/report.json"))

    def end(self) -> None:
        """End the agents, stopped ones as well, and what they have started."""
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and Path(process.cwd()) == self.folder:
                    process.kill()
        for agent in self.agents:
            agent.wait(LIMIT_S)


@contextmanager
def elastic_job(folder: Path, script: str, *options: str, **environment: str) -> Generator[Job]:
    """Start two agents whose ranks watch this script, until the end of the block."""
    (folder / "train.py").write_text(script)
    job = Job(folder.resolve(), options, environment)
    try:
        job.start()
        job.start()
        yield job
    finally:
        job.end()
