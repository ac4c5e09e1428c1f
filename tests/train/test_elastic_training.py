"""Ranks that are killed, or asked to leave, in the midst of a training; under real launchers."""

import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from verified import write_sample

from ddpcheck.report import read_report

LIMIT_S = 120.0
STEPS = 60
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
DDPCHECK = ["-m", "ddpcheck", "train"]


def start(
    folder: Path, launcher: Sequence[str] = (), own: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start a training of 60 steps, with a checkpoint every five; it tells of every sixth."""
    words = f"--from {folder} --force --backend gloo --steps {STEPS} --global-batch 4"
    options = [*shlex.split(words), "--checkpoint-every", "5"]
    return start_words([*launcher, *DDPCHECK, *options, *own])


def start_words(words: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def read_until(process: subprocess.Popen[str], word: str) -> list[str]:
    """Return what the process tells until it says ``word``."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if word in line:
            return lines
    pytest.fail("".join(lines))


def rank_of(launcher: subprocess.Popen[str], rank: int) -> psutil.Process:
    ranks = psutil.Process(launcher.pid).children()
    return next(each for each in ranks if each.environ().get("RANK") == str(rank))


def curve(folder: Path) -> list[Any]:
    training = read_report(folder).training
    assert training is not None
    return list(training["loss"])


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return the loss curve of the run that nothing happens to."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    write_sample(folder)
    with start(folder, TORCHRUN) as whole:
        _, told = whole.communicate(timeout=LIMIT_S)
    assert whole.returncode == 0, told
    assert len(curve(folder)) == STEPS
    return curve(folder)


@pytest.mark.thorough
def test_restarts_end_with_the_same_curve(tmp_path: Path, uninterrupted: list[Any]) -> None:
    write_sample(tmp_path)
    with start(tmp_path, TORCHRUN) as launcher:
        # One rank is asked to leave, and takes the other with it; then one is killed.
        read_until(launcher, f" 12/{STEPS} ")
        rank_of(launcher, 1).terminate()
        told = read_until(launcher, f" 42/{STEPS} ")
        rank_of(launcher, 1).kill()
        told += read_until(launcher, f" {STEPS}/{STEPS} ")
        launcher.communicate(timeout=LIMIT_S)
    assert launcher.returncode == 0, "".join(told)
    assert curve(tmp_path) == uninterrupted
    (stopped,) = re.findall(r"ddpcheck: stopped after step (\d+)", "".join(told))
    resumed = re.findall(r"ddpcheck: resumed after step (\d+)", "".join(told))
    assert resumed[0] == stopped
    assert 35 <= int(resumed[1]) < STEPS
    assert "Traceback" not in "".join(told)
    assert "another rank has gone" in "".join(told)


def test_a_stop_says_how_to_go_on_and_that_is_how(tmp_path: Path, uninterrupted: list[Any]) -> None:
    write_sample(tmp_path)
    with start(tmp_path, own=["--nproc-per-node", "2"]) as launcher:
        read_until(launcher, f" 12/{STEPS} ")
        launcher.terminate()
        _, told = launcher.communicate(timeout=LIMIT_S)
    assert launcher.returncode == 130, told
    (command,) = re.findall("go on with: ddpcheck (.*)", told)
    with start_words(["-m", "ddpcheck", *shlex.split(command)]) as again:
        _, told = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, told
    assert curve(tmp_path) == uninterrupted


@pytest.mark.thorough
def test_a_stop_reaches_ranks_of_several_nodes(tmp_path: Path) -> None:
    write_sample(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    nodes = [
        start(
            tmp_path,
            own=["--nproc-per-node=1", "--nnodes=2", f"--node-rank={rank}", "--master-port", port],
        )
        for rank in (0, 1)
    ]
    read_until(nodes[0], f" 12/{STEPS} ")
    # One is enough: its rank says so to all.
    nodes[1].terminate()
    told = [node.communicate(timeout=LIMIT_S)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [130, 130], told
    assert "stopped after step" in told[0]


def test_a_rank_that_dies_is_told_in_a_line(tmp_path: Path) -> None:
    write_sample(tmp_path)
    with start(tmp_path, TORCHRUN[:-1]) as launcher:
        read_until(launcher, f" 12/{STEPS} ")
        rank_of(launcher, 0).kill()
        told = "".join(read_until(launcher, "has gone"))
        launcher.communicate(timeout=LIMIT_S)
    assert launcher.returncode == 1
    assert "Traceback" not in told
    assert re.search(r"ddpcheck: rank 1: another rank has gone: .*peer", told)
