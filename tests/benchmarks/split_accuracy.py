"""How well ``performance/exposed-communication`` knows what torch.profiler sees, on two ranks.

    python tests/benchmarks/split_accuracy.py [--turns 5] [--steps 10] [--apart] [--case N ...]

The ranks are on two GPUs where there are two, with NCCL, and else on the CPU, with gloo.

In each turn the product's own measurement (ddpcheck/target/step_split.py) runs inside a trace of
torch.profiler, so that both tell of the same steps:

split: what ``ddpcheck run`` tells. Exposed communication is the time from the end of a backward pass's
    compute to the end of its last all-reduce, as DDP logs it, as a share of a step.
trace: exposed communication is the time in which an all-reduce is under way, from its call
    (``c10d::allreduce_``) to its end on a thread of gloo's (``gloo:all_reduce``), and the main thread,
    which on a CPU runs autograd, too, is in no operator and in no node of autograd: it waits.

On GPUs (device_trace.py) the trace has kernels of NCCL while no other runs. Where the host is what a step
waits for, tracing makes it several times as long, and kernels of NCCL run alone while the host has yet to
launch the next one. With --apart the split is measured before the trace, and both are shares of its step.

A model is tried whose gradients fit one bucket (the built-in target), and a larger one in several
buckets, of which all but the last may overlap, with small and with larger batches.

Prints these of rank 0 for each turn, the difference of split and trace in points (hundredths of a step),
and the medians; ends with 1 where the median difference is above the limit. ``ddpcheck watch`` measures no
such share.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from device_trace import DeviceTrace
from torch._C._autograd import DeviceType
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function

from ddpcheck.measures.intervals import Interval, uncovered
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, next_byte_loss
from ddpcheck.target.step_split import WARM_UP_STEPS, SplitParts, measure_split

LIMIT_POINTS = 5.0
POINTS = 100
RANKS = 2
BATCH = "the next batch"
ACTIVITIES = (ProfilerActivity.CPU, ProfilerActivity.CUDA)
COMPUTE = ("aten::", "autograd::engine::")
CALLED, CARRIED_OUT = "c10d::allreduce_", "gloo:all_reduce"
COLUMNS = ("split", "trace", "points", "core waits")


class Case(NamedTuple):
    """A model, its batch a rank, and DDP's bucket."""

    name: str
    config: MiniGPTConfig
    batch: int
    bucket_mb: int


CASES = (
    Case("built-in target, 1 bucket", MiniGPTConfig(), 4, 25),
    Case("13 MB, buckets of 2 MB, batch 2", MiniGPTConfig(layers=4, width=256), 2, 2),
    Case("13 MB, buckets of 2 MB, batch 16", MiniGPTConfig(layers=4, width=256), 16, 2),
)
LARGE = MiniGPTConfig(block=256, layers=8, heads=8, width=1024)
GPU_CASES = (
    CASES[0],
    Case("400 MB, buckets of 25 MB, batch 2", LARGE, 2, 25),
    Case("400 MB, 1 bucket, batch 2", LARGE, 2, 1000),
    Case("400 MB, buckets of 25 MB, batch 16", LARGE, 16, 25),
)
ON_GPUS = torch.cuda.device_count() >= RANKS


class Shares(NamedTuple):
    """Shares of a step, 0 to 1, and which part of the split's time may have been waits for a core."""

    split: float
    trace: float
    core_waits: float

    @property
    def points(self) -> float:
        """Return by how many points the split is above the trace."""
        return POINTS * (self.split - self.trace)


def main() -> None:
    """Start the ranks, which measure and print."""
    options = parsed()
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        spawn(be_rank, (folder, options), nprocs=RANKS)
        missed = (Path(folder) / "missed").read_text()
    raise SystemExit(f"above {LIMIT_POINTS:.0f} points: {missed}" if missed else 0)


def parsed() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--apart", action="store_true", help="on GPUs")
    every = range(len(GPU_CASES if ON_GPUS else CASES))
    parser.add_argument("--case", type=int, nargs="*", choices=every, default=[*every])
    return parser.parse_args()


def be_rank(rank: int, folder: str, options: argparse.Namespace) -> None:
    """Be one rank; rank 0 prints, and writes the names of cases above the limit."""
    torch.set_num_threads(1)
    if ON_GPUS:
        torch.cuda.set_device(rank)
    place = f"file://{folder}/store"
    backend = "nccl" if ON_GPUS else "gloo"
    dist.init_process_group(backend, init_method=place, rank=rank, world_size=RANKS)
    say = print if rank == 0 else str
    missed: list[str] = []
    for case in ((GPU_CASES if ON_GPUS else CASES)[each] for each in options.case):
        say(f"{case.name}\n{'':8}" + "".join(f"{name:>11}" for name in COLUMNS))
        parts, batches = made(case, rank)
        found: list[Shares] = []
        for turn in range(1, options.turns + 1):
            found.append(shares(parts, batches, options))
            say(f"turn {turn:<3}{row(found[-1])}")
            sys.stdout.flush()
        say(summary(found))
        missed += [case.name] * (abs(median(each.points for each in found)) > LIMIT_POINTS)
    if rank == 0:
        (Path(folder) / "missed").write_text("; ".join(missed))
    dist.destroy_process_group()


def made(case: Case, rank: int) -> tuple[SplitParts, Iterator[Any]]:
    """Return the parts of a step of this case, and its batches without end."""
    torch.manual_seed(rank)
    device = f"cuda:{rank}" if ON_GPUS else "cpu"
    model = DistributedDataParallel(
        MiniGPT(case.config).to(device), gradient_as_bucket_view=True, bucket_cap_mb=case.bucket_mb
    )
    batches = [torch.randint(256, (case.batch, case.config.block + 1)) for _ in range(8)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return SplitParts(model, next_byte_loss, optimizer, device), cycle(batches)


def shares(parts: SplitParts, batches: Iterator[Any], options: argparse.Namespace) -> Shares:
    """Return what the split and a trace say of the same steps, or of as many before the trace."""
    steps: int = options.steps
    before = measure_split(parts, batches, steps) if options.apart and ON_GPUS else None
    with profile(activities=ACTIVITIES[: 1 + ON_GPUS]) as trace:
        split = measure_split(parts, iter(within_mark(BATCH, partial(next, batches)), None), steps)
    seen = traced(trace)
    if before and isinstance(seen, DeviceTrace):
        own, traced_share = before.exposed_share, seen.exposed_s / before.step_s
        return Shares(own, traced_share, before.core_waits)
    return Shares(split.exposed_share, seen.waited, split.core_waits)


def traced(trace: profile) -> Trace | DeviceTrace:
    """Return what the trace says, of steps on the device or on the CPU."""
    events = list(trace.events() or [])
    ours = [e for e in events if e.device_type == DeviceType.CPU]
    spans = [(e.name, (e.time_range.start, e.time_range.end)) for e in ours]
    if not ON_GPUS:
        return Trace(spans)
    return DeviceTrace([begin for begin, _ in steps_in(spans)], events)


def within_mark(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function so that each call of it is an event of the trace."""

    def marked(*given: Any) -> Any:
        with record_function(name):
            return function(*given)

    return marked


def steps_in(events: list[tuple[str, Interval]]) -> list[Interval]:
    """Return the steps but for those that warm up: from a batch's begin to the gradients' end."""

    def of(name: str) -> list[Interval]:
        return sorted(span for told, span in events if told.startswith(name))

    marks = zip(of(BATCH), of("Optimizer.zero_grad"), strict=True)
    return [(batch[0], zero[1]) for batch, zero in marks][WARM_UP_STEPS:]


class Trace:
    """What the events of a trace say, as shares of a step with synchronization, in the median."""

    def __init__(self, events: list[tuple[str, Interval]]) -> None:
        self._steps = steps_in(events)
        self._compute = [span for name, span in events if name.startswith(COMPUTE)]
        # Its threads take them up in the order of the calls.
        called, done = (
            sorted(span for name, span in events if name == each) for each in (CALLED, CARRIED_OUT)
        )
        self._communication = [(call[0], work[1]) for call, work in zip(called, done, strict=True)]

    @property
    def waited(self) -> float:
        """Return the share in which there is communication, and no compute."""
        return median(
            uncovered(within(step, self._communication), within(step, self._compute)) / took(step)
            for step in self._steps
        )


def within(whole: Interval, spans: list[Interval]) -> list[Interval]:
    """Return the spans that begin in an interval."""
    return [span for span in spans if whole[0] <= span[0] < whole[1]]


def took(span: Interval) -> float:
    """Return how long an interval is."""
    return span[1] - span[0]


def summary(found: list[Shares]) -> str:
    """Return the medians of all turns."""
    typical = row(Shares(*(median(each) for each in zip(*found, strict=True))))
    apart = median(each.points for each in found)
    return f"median  {typical}\ndifferences in the median {apart:+.1f} points\n"


def row(each: Shares) -> str:
    """Return one line of numbers."""
    return f"{each.split:11.1%}{each.trace:11.1%}{each.points:+11.1f}{each.core_waits:11.1%}"


if __name__ == "__main__":
    main()
