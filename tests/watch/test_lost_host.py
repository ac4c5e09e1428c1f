"""A host that is lost while a script trains, under torchrun's agents."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hosts import PORT, Host, made_hosts
from namespaces import Namespaces
from real_ranks import LIMIT_S

from ddpcheck.finding import Finding
from ddpcheck.report import read_report

SCRIPT = """
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
for step in range(10**9):
    model(torch.randn(4, 2)).sum().backward()
    if step == 3:
        sys.stderr.write("trains\\n")
"""
LOOK_S = 0.05
# Ranks of one machine see each other's processes; those of two hosts do not.
OWN_PIDS = ("unshare", "--pid", "--fork", "--mount-proc")


def started(hosts: list[Host], folder: Path) -> list[Path]:
    """Start an agent on each host, and return what they write; all train."""
    (folder / "train.py").write_text(SCRIPT)
    outs = [folder / f"out-{index}" for index in range(len(hosts))]
    (folder / "reports").mkdir()
    for host in hosts[1:]:
        host.mount_disk(folder / "reports")
    for index, (host, out) in enumerate(zip(hosts, outs, strict=True)):
        launcher = [
            *("-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(index)),
            *("--nproc-per-node", "1", "--master-addr", hosts[0].address),
            *("--master-port", str(PORT)),
        ]
        watch = ("-m", "ddpcheck", "watch", "--deadline", "4", "--steps", "0", "train.py")
        with out.open("w") as file:
            host.start(
                [*OWN_PIDS, sys.executable, *launcher, *watch], cwd=folder, stdout=file, stderr=file
            )
    wait_until_all_say(outs, "trains")
    return outs


def wait_until_all_say(outs: list[Path], words: str) -> None:
    until = time.monotonic() + LIMIT_S
    while not all(words in out.read_text() for out in outs):
        assert time.monotonic() < until, "".join(out.read_text() for out in outs)
        time.sleep(LOOK_S)


def cut_off(host: Namespaces) -> None:
    host.ip("link", "set", "eth0", "down")


def findings(folder: Path) -> dict[str, Finding]:
    return {each.id: each for each in read_report(folder / "reports" / "latest").findings}


def test_who_is_lost_and_what_lets_the_others_go_on(tmp_path: Path) -> None:
    with made_hosts() as hosts:
        outs = started(hosts, tmp_path)
        cut_off(hosts[1])
        wait_until_all_say(outs[:1], "verdict: ")
    stalled = findings(tmp_path)["ranks/stalled"]
    assert stalled.ranks == (1,)
    assert "no sign of life" in stalled.message
    assert "torchrun's other agents do not act on a host that is lost" in stalled.fix


def test_the_loss_of_the_stores_host_is_told_by_the_other(tmp_path: Path) -> None:
    with made_hosts() as hosts:
        outs = started(hosts, tmp_path)
        cut_off(hosts[0])
        wait_until_all_say(outs[1:], f"the store at {hosts[0].address}:")
        wait_until_all_say(outs[1:], "does not answer any more")
