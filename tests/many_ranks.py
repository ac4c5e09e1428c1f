"""What thousands of ranks would tell: the facts of a real report, with each rank's own differences.

What all ranks of the sample say alike, all of these do; what differs there is another number or
another digest on each rank here. Three ranks are odd: one computes late in every turn, one is lost, and
one host has an older torch.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from ddpcheck import jsontext
from ddpcheck.engine.assembly import RUN_NAME
from ddpcheck.engine.entries import Began, Ended, Entry, Measured, Present, Skipped, Testified, pack
from ddpcheck.measures.testimony import State, Testimony
from ddpcheck.report import Report, Run, read_report, unfold

SAMPLE = Path(__file__).parent.parent / "reports" / "samples" / "nccl-2-gpus"
A_HOST = 8
FIRST_PID = 100_000
ODD_HOST, STRAGGLER, LOST = 3, 44, 60
ODD_TORCH = "2.10.0"
LATE_S = 0.003
# Numbers of one kind are this far apart, as those of equal GPUs are.
SPREAD = 0.02
# What is each host's own though the sample had one host, and clocks that run alike everywhere.
OWN = ("host", "place", "machine", "pids_from", "domain", "nccl_host", "address")
AS_SAMPLED = ("earliest_s", "latest_s")
DIGEST = re.compile(r"[0-9a-f]{16}")
DEVICE = re.compile(r"cuda:\d+")
# It compares up to 64 ranks with one process.
REFERENCE = "gradients/wrong-gradient"
VERSIONS, LATE, LINKS = (
    "environment/version-mismatch",
    "collectives/late-rank",
    "collectives/slow-link",
)


def write_run(run_dir: Path, world_size: int) -> Run:
    """Write what the ranks of a run told into ``run_dir``, and return the run."""
    sample = read_report(SAMPLE)
    (run_dir / "ranks").mkdir(parents=True)
    hosts = [host_of(rank) for rank in range(0, world_size, A_HOST)]
    run = msgspec.structs.replace(
        sample.run,
        id=run_dir.name,
        command="ddpcheck run",
        launcher="slurm",
        requested_world_size=world_size,
        world_size=world_size,
        hosts=hosts,
    )
    (run_dir / RUN_NAME).write_bytes(jsontext.encode(run))
    for rank in range(world_size):
        file = run_dir / "ranks" / f"{rank}.jsonl"
        file.write_bytes(pack(entries_of(sample, rank, world_size)))
    return run


def host_of(rank: int) -> str:
    """Return the name of a rank's host."""
    return f"node{rank // A_HOST:04d}"


def entries_of(sample: Report, rank: int, world_size: int, *, odd: bool = True) -> Iterator[Entry]:
    """Yield what one rank tells, from the first word to the last; ``odd``: three are."""
    yield Present(
        rank=rank,
        local_rank=rank % A_HOST,
        world_size=world_size,
        host=host_of(rank),
        pid=FIRST_PID + rank,
        gpus=A_HOST,
        backend="nccl",
        launcher="slurm",
        versions=sample.run.versions,
    )
    own = _Own(rank, world_size, odd=odd)
    stage = ""
    for check in sample.checks:
        if check.stage not in ("ranks", stage):
            yield from [Ended(stage)] if stage else []
            stage = check.stage
        if odd and rank == LOST and stage == "rehearsal":
            testimony = Testimony(state=State.GONE, check=check.id, ended_by="SIGKILL", order=1)
            yield Began(check.id, 1.0)
            yield Testified(testimony)
            return
        if check.stage == "ranks":
            continue
        yield Began(check.id, 1.0)
        facts = unfold(sample.facts.get(check.id, ())) if check.id != REFERENCE else {}
        if facts:
            yield Measured(check.id, own.facts(check.id, facts), check.duration_s)
        else:
            yield Skipped(check.id, check.reason)
    yield Ended(stage)


class _Own:
    """Makes the facts of the sample those of one rank."""

    def __init__(self, rank: int, world_size: int, *, odd: bool) -> None:
        self._odd = odd
        self._rank = rank
        self._world_size = world_size
        self._random = random.Random(rank)
        # What a rank measures goes up and down together: it is one machine.
        self._pace = self._random.uniform(1 - SPREAD, 1 + SPREAD)

    def facts(self, check: str, of_sample: Mapping[int, Any]) -> Any:
        """Return this rank's fact of a check."""
        ranks = sorted(of_sample)
        told = [of_sample[rank] for rank in ranks]
        like = self._rank % len(told)
        own = self._varied(told[like], [each for at, each in enumerate(told) if at != like])
        if self._odd and check == VERSIONS and self._rank // A_HOST == ODD_HOST:
            own["versions"]["torch"] = ODD_TORCH
        if check == LATE:
            self._turns(own["turns"])
        if check == LINKS:
            own["exchanges"] = list(self._exchanges(own["exchanges"]))
        return own

    def _varied(self, value: Any, others: Sequence[Any], name: str = "") -> Any:
        if isinstance(value, dict):
            return {
                key: self._varied(each, [o[key] for o in others if key in o], key)
                for key, each in value.items()
            }
        if name == "group" and value:
            return list(range(self._world_size))
        if name == "pids" and value:
            return [FIRST_PID + self._rank, *value[1:]]
        if isinstance(value, list):
            return [
                self._varied(each, [o[at] for o in others if at < len(o)], name)
                for at, each in enumerate(value)
            ]
        return self._leaf(value, others, name)

    def _leaf(self, value: Any, others: Sequence[Any], name: str) -> Any:
        known = self._known.get(name)
        if known is not None and type(known) is type(value):
            return known
        if all(each == value for each in others) and name not in OWN:
            return value
        if isinstance(value, float) and name not in AS_SAMPLED:
            return value * self._pace * self._random.uniform(1, 1.0001)
        return self._text(value, name) if isinstance(value, str) else value

    @cached_property
    def _known(self) -> dict[str, Any]:
        """Return what a rank says of itself, by name."""
        return {
            "rank": str(self._rank),
            "RANK": str(self._rank),
            "seat": self._rank,
            "world_size": self._world_size,
            "WORLD_SIZE": str(self._world_size),
            "local_rank": self._rank % A_HOST,
            "LOCAL_RANK": str(self._rank % A_HOST),
            "LOCAL_WORLD_SIZE": str(A_HOST),
            "GROUP_RANK": str(self._rank // A_HOST),
            "MASTER_ADDR": host_of(0),
            "gpus": A_HOST,
            "device_count": A_HOST,
            "devices": A_HOST,
            "current_device": self._rank % A_HOST,
            "pid": FIRST_PID + self._rank,
        }

    def _text(self, value: str, name: str) -> str:
        if name == "host":
            return host_of(self._rank)
        if name == "address":
            return f"10.{self._rank // A_HOST // 256}.{self._rank // A_HOST % 256}.2"
        if name in OWN and value != "x86_64":  # versions have a machine, too
            return f"{host_of(self._rank)} {value}"
        if DEVICE.fullmatch(value):
            return f"cuda:{self._rank % A_HOST}"
        if DIGEST.fullmatch(value) or name in ("uuid", "pci"):
            return hashlib.sha256(f"{value}{self._rank}".encode()).hexdigest()[:16]
        return value

    def _turns(self, turns: dict[str, Any]) -> None:
        # All wait for the straggler, and it for nobody.
        late = self._odd and self._rank == STRAGGLER
        wait_s = 0.0001 if late else LATE_S
        turns["wait_s"] = [wait_s * self._random.uniform(1, 1.01) for _ in turns["wait_s"]]
        if late:
            turns["pace_s"] = [2 * each for each in turns["pace_s"]]
            turns["mean_s"] *= 2

    def _exchanges(self, told: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        # A ring of pairs, each way: partners tell of each other.
        for each, step in zip(told, (1, -1), strict=False):
            partner = (self._rank + step) % self._world_size
            yield {**each, "partner": partner, "took_s": 0.0004}
