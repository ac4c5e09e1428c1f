"""How surely slow ranks and links are named, and healthy ones are not.

    python tests/benchmarks/blame.py [--runs 20] [--compute-only]

Runs, in turn: two healthy ranks; two, of which rank 1 computes a tenth slower (on two GPUs where
there are any; on cores with --profile full); four healthy hosts (network namespaces, which need
root); four, of which one host's packets are limited. Prints how often which rank was named.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from hosts import Host, made_hosts, run_ranks
from real_ranks import Ended, by_hand, free_port, run_by_hand, target

SLOW_MULTIPLIER = target("faults/multiplies_slower_on_rank_one:build")
LATE, LINK = "collectives/late-rank", "collectives/slow-link"
REHEARSED = "gradients/step-raised"
ON_GPUS = torch.cuda.device_count() > 1
PROFILE = "standard" if ON_GPUS else "full"
GUILTY_HOST = 2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--compute-only", action="store_true")
    options = parser.parse_args()
    runs = options.runs
    print(
        f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}, "
        f"{torch.cuda.get_device_name() if ON_GPUS else 'CPU'}"
    )
    compute: dict[str, Counter[str]] = {"healthy": Counter(), "rank 1 slower by 10 %": Counter()}
    for _ in range(runs):
        for name, slower_by in zip(compute, ("0", "0.1"), strict=True):
            compute[name][_two_ranks(slower_by)] += 1
    _show(LATE, compute)
    if options.compute_only:
        return
    links: dict[str, Counter[str]] = {"healthy": Counter(), "host 2 limited": Counter()}
    with made_hosts(4) as healthy, made_hosts(4, network="10.78.0") as limited:
        limit(limited[GUILTY_HOST])
        for _ in range(runs):
            for name, hosts in zip(links, (healthy, limited), strict=True):
                links[name][_four_hosts(hosts)] += 1
    _show(LINK, links)


def limit(host: Host) -> None:
    """Let a host send and receive no more than 200 packets a second."""
    for chain in ("INPUT", "OUTPUT"):
        words = ["-p", "tcp", "-m", "hashlimit", "--hashlimit-above", "200/sec"]
        more = ["--hashlimit-burst", "20", "--hashlimit-name", chain, "-j", "DROP"]
        host.iptables("-A", chain, *words, *more)


def _two_ranks(slower_by: str) -> str:
    port = free_port()
    more = {"SLOWER_BY": slower_by} | ({"CUDA_VISIBLE_DEVICES": "0,1"} if ON_GPUS else {})
    ranks = [by_hand(rank, 2, port) | more for rank in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder) / "reports"
        # The target, which is what slows a rank, is there once the rehearsal is asked for.
        options = ("--target", SLOW_MULTIPLIER, "--select", f"{LATE},{LINK},{REHEARSED}")
        return _named(run_by_hand(reports, ranks, *options, "--profile", PROFILE))


def _four_hosts(hosts: Sequence[Host]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder) / "reports"
        return _named(run_ranks(reports, hosts, "--select", LINK, "--profile", "standard"))


def _named(ended: Ended) -> str:
    told = [f"{each.id} {each.ranks}" for each in ended.report.findings if each.id in (LATE, LINK)]
    return ", ".join(told) or "nobody"


def _show(check: str, found: dict[str, Counter[str]]) -> None:
    for name, counts in found.items():
        told = "; ".join(f"{count} times {who}" for who, count in counts.most_common())
        print(f"{check}, {name}: {told}", flush=True)


if __name__ == "__main__":
    main()
