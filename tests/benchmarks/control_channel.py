"""How the control channel grows with the number of ranks: time, bytes, and what the leader takes.

Usage: python tests/benchmarks/control_channel.py [--ranks 64,512,2048] [--processes 2] [--stages] [--lost]

The store's host and the leader are the product's, in a process each; the ranks are simulated (see
tests/simulated_ranks.py: what is real there, and what is not). All ranks tell a stage the moment
they have heard the decision on the one before. A stage lasts from one decision to the next as the leader
announces them, judging included; the roll call, from the leader's first question to the seats; the
report, from the last decision to the end.

Prints a line for each size: seconds of a stage (median and longest of all), of the roll call and the
report; bytes that a rank sends and receives in all, by the kernel's count of its connections (those to
join, and beats, included); CPU seconds of leader, store and ranks; the leader's calls of the store, and the memory it took at
most above what it began with; and beats, of those that were due. ``--stages`` adds a line for each stage, and ``--lost`` has
a rank die in the last one, so that there is an inquest. Cores and load are printed, for ranks share them
with the store and the leader: CPU seconds say what each would take on a machine of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil
import torch

FOLDER = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

from connections import free_port, wire_bytes  # noqa: E402
from measured_leader import LeadersChannel, LeadingRank, Led, Mark  # noqa: E402
from simulated_ranks import PATIENCE_S, Crowd, Job, SimulatedRank, words_of_all  # noqa: E402

from ddpcheck.catalogue import catalogue  # noqa: E402
from ddpcheck.engine.announcements import ASSIGNMENT  # noqa: E402
from ddpcheck.engine.leader import Leader  # noqa: E402
from ddpcheck.engine.plan import BEAT_S, slowness  # noqa: E402
from ddpcheck.finding import Severity  # noqa: E402
from ddpcheck.launch.host import ENDED, ask_no_name_server, host_beside  # noqa: E402
from ddpcheck.report import Report  # noqa: E402

LIMIT_S = 5.0
MIB_KIB = 1024
KB_BYTES = 1000
# What grows with the ranks may be measured so much above a straight line.
NOISE = 1.25
fork = multiprocessing.get_context("fork")


class Ranks(NamedTuple):
    """What one process of simulated ranks measured."""

    connect_s: float
    joined_bytes: tuple[int, int]
    bytes: tuple[int, int]
    cpu_s: float
    beats: int
    alive_s: float
    codes: set[int]


def lead(job: Job, ready: Barrier, out: Connection) -> None:
    """Host the store, be rank 0, and lead; send what was measured."""
    words = words_of_all(job, [0])[0]
    if not host_beside(job.identity(0), PATIENCE_S):
        raise SystemExit(f"port {job.port} is taken")
    (host,) = psutil.Process().children()
    ask_no_name_server()
    ready.wait()
    led = Led()

    def take(report: Report, _path: Path) -> None:
        led.verdict = report.verdict.value
        led.reasons = [
            f"{each.id}: {each.message[:100]}"
            for each in report.findings
            if each.severity is Severity.ERROR
        ]

    task = job.task(0, take)
    rank = LeadingRank(job, task, 0, words)
    rank.leader = Leader(lambda: LeadersChannel(job.new_store(0), host, led), task)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ready.wait()
    Crowd([rank], task, job.world_size).live()
    rank.leader.join()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    led.memory_mib = (after - before) / MIB_KIB
    out.send(led)


def live(job: Job, numbers: Sequence[int], ready: Barrier, out: Connection) -> None:
    """Be these ranks; send what was measured."""
    ask_no_name_server()  # real ranks ask side by side, and these would one after the other
    words = words_of_all(job, numbers)
    task = job.task(1)
    ready.wait()
    began = time.monotonic()
    ranks = [SimulatedRank(job, task, each, words[each]) for each in numbers]
    connect_s = time.monotonic() - began
    joined_bytes = wire_bytes()
    ready.wait()
    began, cpu = time.monotonic(), time.process_time()
    Crowd(ranks, task, job.world_size).live()
    out.send(
        Ranks(
            connect_s,
            joined_bytes,
            wire_bytes(),
            time.process_time() - cpu,
            sum(each.turns for each in ranks),
            time.monotonic() - began,
            {each.exit_code for each in ranks},
        )
    )


class Size(NamedTuple):
    """What a run of so many ranks took."""

    ranks: int
    led: Led
    parts: Sequence[Ranks]

    @property
    def steps(self) -> list[tuple[str, Mark]]:
        """Return what each announcement took since the one before."""
        pairs = zip(self.led.marks, self.led.marks[1:], strict=False)
        return [(now.what, Mark(now.what, *_less(now[1:], then[1:]))) for then, now in pairs]

    @property
    def stages(self) -> list[Mark]:
        """Return what each stage took."""
        return [took for what, took in self.steps if what not in (ASSIGNMENT, ENDED)]

    @property
    def beats_share(self) -> float:
        """Return how many of the due beats came."""
        pace_s = BEAT_S * slowness(self.ranks)
        due = sum(each.alive_s for each in self.parts) / len(self.parts) / pace_s * self.ranks
        return sum(each.beats for each in self.parts) / due

    def a_rank(self, which: int) -> float:
        """Return the kB that a rank sends (0) or receives (1) in all."""
        return sum(each.bytes[which] for each in self.parts) / (self.ranks - 1) / KB_BYTES


def _less(now: Sequence[Any], then: Sequence[Any]) -> list[Any]:
    return [a - b for a, b in zip(now, then, strict=True)]


def measure(count: int, processes: int, *, lost: bool) -> Size:
    """Return what a run of so many ranks took."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(count, free_port(), folder, count - 2 if lost else -1)
        ready = fork.Barrier(processes + 1)
        works: list[tuple[Any, tuple[Any, ...]]] = [(lead, (job, ready))]
        works += [(live, (job, range(1 + at, count, processes), ready)) for at in range(processes)]
        pipes: list[Connection] = []
        for work, given in works:
            reader, writer = fork.Pipe(duplex=False)
            fork.Process(target=work, args=(*given, writer), daemon=False).start()
            writer.close()
            pipes.append(reader)
        led, *parts = [pipe.recv() for pipe in pipes]
    return Size(count, led, parts)


HEADER = (
    f"{'ranks':>6}{'join s':>8}{'stage s':>9}{'longest':>9}{'roll':>7}{'report':>8}{'sent kB':>9}{'got kB':>8}"
    f"{'leader':>8}{'store':>7}{'ranks CPU s':>13}{'calls':>8}{'MiB':>6}{'beats':>7}  verdict"
)


def line_of(size: Size) -> str:
    """Return a size as a line below the header."""
    took = dict(size.steps)
    stages = [each.at for each in size.stages]
    first, last = size.led.marks[0], size.led.marks[-1]
    return (
        f"{size.ranks:6}{max(each.connect_s for each in size.parts):8.2f}{median(stages):9.2f}{max(stages):9.2f}{took[ASSIGNMENT].at:7.2f}"
        f"{took[ENDED].at:8.2f}{size.a_rank(0):9.1f}{size.a_rank(1):8.1f}"
        f"{last.leader_s - first.leader_s:8.2f}{last.store_s - first.store_s:7.2f}"
        f"{sum(each.cpu_s for each in size.parts):13.2f}{last.calls:8}{size.led.memory_mib:6.0f}"
        f"{size.beats_share:7.0%}  {size.led.verdict}"
    )


def lines_of_steps(size: Size) -> list[str]:
    """Return a line for each step of a run."""
    return [
        f"       {what:<14}{took.at:7.2f} s, CPU s: leader {took.leader_s:5.2f}, store "
        f"{took.store_s:5.2f}; {took.calls} calls"
        for what, took in size.steps
    ]


def growth(sizes: Sequence[Size]) -> list[str]:
    """Return, for each of what is bounded, whether it grew at most as the ranks did."""
    first, last = sizes[-2:]
    ratio = last.ranks / first.ranks
    measured: dict[str, Callable[[Size], float]] = {
        "the longest stage": lambda size: max(each.at for each in size.stages),
        "leader's CPU": lambda size: size.led.marks[-1].leader_s - size.led.marks[0].leader_s,
        "store's CPU": lambda size: size.led.marks[-1].store_s - size.led.marks[0].store_s,
        "leader's memory": lambda size: size.led.memory_mib,
    }
    grown = {what: take(last) / take(first) for what, take in measured.items() if take(first) > 0}
    return [
        f"{what}: {times:.1f}-fold, {'at most' if times <= NOISE * ratio else 'more than'} linear"
        for what, times in grown.items()
    ]


def main() -> None:
    """Measure each size, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", default="64,512,2048")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--lost", action="store_true")
    options = parser.parse_args()
    catalogue()
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Python "
        f"{platform.python_version()}, torch {torch.__version__}\n{HEADER}",
        flush=True,
    )
    sizes: list[Size] = []
    for count in map(int, options.ranks.split(",")):
        size = measure(count, options.processes, lost=options.lost)
        sizes.append(size)
        lines = [line_of(size), *(lines_of_steps(size) if options.stages else ())]
        print("\n".join([*lines, *size.led.reasons[:3]]), flush=True)
    if len(sizes) > 1:
        times = sizes[-1].ranks / sizes[-2].ranks
        print(f"{times:.0f} times the ranks; " + "; ".join(growth(sizes)))


if __name__ == "__main__":
    main()
