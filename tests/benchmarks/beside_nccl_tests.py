"""Bus bandwidths of a report beside those that nccl-tests printed on the same GPUs.

    ddpcheck run --profile full --select collectives/low-bandwidth
    for t in all_reduce all_gather reduce_scatter broadcast alltoall sendrecv; do echo "== $t";
        ${t}_perf -b 1K -e 1K -t 2 -g 1 -n 50 -w 10; ${t}_perf -b 64M -e 1G -f 4 -t 2 -g 1 -n 50 -w 10;
    done > nccl-tests.txt
    python tests/benchmarks/beside_nccl_tests.py reports/latest nccl-tests.txt

Of several turns, REPORT TEXT REPORT TEXT ..., each side's median is shown. Times are microseconds,
nccl-tests' average on the left. On the right, large ones go back to back, all started before the
first begins, as there; of 1 KiB it is the median go of the slowest rank, which starts each from
Python, and "wire" is without that (see ddpcheck/collectives/timing.py).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec

from ddpcheck.measures.collective_speed import Name, Speed, gbps, slowest
from ddpcheck.report import Report, facts_in, read_report

CHECK = "collectives/low-bandwidth"
NAMES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather_into_tensor",
    "reduce_scatter": "reduce_scatter_tensor",
    "broadcast": "broadcast",
    "alltoall": "all_to_all_single",
    "sendrecv": "batch_isend_irecv ring",
}
# Columns of nccl-tests: time and bus bandwidth, out of place and in place.
COLUMNS = {"contiguous": (5, 7), "in place": (9, 11)}
# Of these, how long they take without being started is compared, not the bandwidth.
SMALL_BYTES = 2**10
# What torch does in place by nature.
ON_ITSELF = ("all_reduce", "broadcast")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("turns", nargs="+", metavar="REPORT TEXT")
    files = parser.parse_args().turns
    report = read_report(Path(files[0]))
    print(_machine(report))
    if len(files) > 2:
        print(f"medians of {len(files) // 2} turns")
    print(
        f"{'collective':24} {'memory':10} {'bytes':>10}   nccl-tests GB/s   ddpcheck GB/s     wire"
    )
    own = [_measured(folder) for folder in files[::2]]
    theirs = [dict(_lines(Path(text).read_text())) for text in files[1::2]]
    for name in theirs[0]:
        if name in own[0]:
            turns = [(known[name], text[name]) for known, text in zip(own, theirs, strict=True)]
            print(_line(turns, report.run.world_size))


def _measured(folder: str) -> dict[Name, Speed]:
    facts = facts_in(folder)[CHECK].items()
    speeds = slowest({rank: msgspec.convert(own["speeds"], list[Speed]) for rank, own in facts})
    return {speed.name: speed for speed in speeds}


def _machine(report: Report) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in report.run.versions.items())
    devices = _devices(report)
    return f"{report.run.world_size} ranks on {len(report.run.hosts)} host | {devices} | {versions}"


def _devices(report: Report) -> str:
    return ", ".join(dict.fromkeys(rank.device.partition(":")[0] for rank in report.ranks))


def _lines(text: str) -> Iterator[tuple[Name, tuple[float, float]]]:
    """Yield what nccl-tests printed: the name, and its time in us and bus bandwidth in GB/s."""
    kind = ""
    for line in text.splitlines():
        words = line.split()
        if line.startswith("=="):
            kind = NAMES[words[1]]
        elif re.match(r" +\d", line):
            for memory, columns in COLUMNS.items():
                time, bus = COLUMNS["in place"] if kind in ON_ITSELF else columns
                yield (kind, memory, int(words[0])), (float(words[time]), float(words[bus]))


def _line(turns: Sequence[tuple[Speed, tuple[float, float]]], world_size: int) -> str:
    own = turns[0][0]
    time_us, bus = (median(theirs[column] for _, theirs in turns) for column in (0, 1))
    steady_s = median(speed.steady_s for speed, _ in turns)
    reached = median(gbps(speed, world_size) for speed, _ in turns)
    wires_us = [1e6 * speed.wire_s for speed, _ in turns if speed.wire_s is not None]
    wire = f"{median(wires_us):8.1f}" if wires_us else f"{'not seen':>8}"
    last = wire if own.size_bytes <= SMALL_BYTES else f"{reached / bus - 1:+8.1%}"
    return (
        f"{own.kind:24} {own.memory:10} {own.size_bytes:>10}   {time_us:>8.1f} {bus:>6.1f}   "
        f"{1e6 * steady_s:>8.1f} {reached:>6.1f} {last}"
    )


if __name__ == "__main__":
    main()
