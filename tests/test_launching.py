"""The ways in which ranks come to be, and end, that are not one plain run."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import psutil
import pytest
from real_ranks import command, target

from ddpcheck.errors import ExitCode
from ddpcheck.launch.local import SAME_REQUEST_S
from ddpcheck.report import RankOutcome, Verdict, read_report

LIMIT_S = 120.0
# What has closed its output as it ends is gone within this time.
ENDING_S = 1.0
# A shell's background job, as these tests may be, ignores Ctrl-C; what a terminal starts does not.
AT_A_TERMINAL = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from ddpcheck.cli import main
sys.exit(main())
"""
# A training that tells when it is in its first step, and stays there.
WAITING = "in its first step\n"
SLOW = f"""
import sys, time
from torch import nn, zeros

def wait_for_the_end(model, batch):
    sys.stderr.write({WAITING!r})
    sys.stderr.flush()
    time.sleep(1000)

def make():
    return nn.Linear(1, 1), [zeros(2, 1)], wait_for_the_end
"""
# Rank 1 waits for a worker that never hands out its batch.
STUCK_LOADER = f"""
import os, sys, time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Stuck(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        if os.environ["RANK"] == "1":
            sys.stderr.write({WAITING!r})
            sys.stderr.flush()
            time.sleep(1000)
        return torch.zeros(1)

dist.init_process_group("gloo")
for batch in DataLoader(Stuck(), num_workers=1):
    dist.all_reduce(batch)
"""


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", AT_A_TERMINAL, *words],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def session_of(process: psutil.Process) -> int:
    """Return the session of a living process; 0 for one that is gone or only waits to be reaped."""
    try:
        return 0 if process.status() == psutil.STATUS_ZOMBIE else os.getsid(process.pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return 0


def those_of(session: int) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if session_of(process) == session]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def read_until(file: IO[str], line: str, times: int) -> list[str]:
    """Read lines until one has come so many times, or the file ends; return what was read."""
    read: list[str] = []
    while read.count(line) < times and (new := file.readline()):
        read.append(new)
    return read


def test_ctrl_c_ends_every_process_and_reports_where_the_ranks_were(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    reports = tmp_path / "reports"
    options = ["--target", "slow.py:make", "--select", "gradients", "--report-dir", str(reports)]
    running = start(tmp_path, "run", *options)
    assert running.stderr is not None
    told = read_until(running.stderr, WAITING, times=2)
    assert told.count(WAITING) == 2, told
    os.killpg(running.pid, signal.SIGINT)
    stdout, stderr = running.communicate(timeout=LIMIT_S)
    assert running.returncode == ExitCode.INTERRUPTED
    assert "Traceback" not in stderr
    assert stderr.splitlines()[-1].startswith("ddpcheck: ")
    assert "SIGINT" in stderr.splitlines()[-1]
    psutil.wait_procs(those_of(running.pid), timeout=ENDING_S)
    assert those_of(running.pid) == []
    report = read_report(reports / "latest")
    assert (report.verdict, report.findings) == (Verdict.INCOMPLETE, [])
    assert stdout.splitlines()[-1].startswith("verdict: INCOMPLETE, 0 errors, ")
    assert [rank.outcome for rank in report.ranks] == [RankOutcome.LOST, RankOutcome.LOST]
    for rank in report.ranks:
        assert rank.reason == "interrupted by SIGINT in rehearsal/training"
        assert rank.last_seen is not None
        assert "wait_for_the_end" in rank.last_seen.stack


def test_one_request_that_is_signalled_several_times_still_leaves_a_report(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    options = ["--target", "slow.py:make", "--select", "gradients", "--report-dir", "reports"]
    running = start(tmp_path, "run", *options)
    assert running.stderr is not None
    read_until(running.stderr, WAITING, times=2)
    began_s = time.monotonic()
    while time.monotonic() - began_s < SAME_REQUEST_S / 2 and running.poll() is None:
        running.send_signal(signal.SIGTERM)
    _, stderr = running.communicate(timeout=LIMIT_S)
    assert (running.returncode, "Traceback" in stderr) == (ExitCode.INCOMPLETE, False)
    assert stderr.splitlines()[-1] == "ddpcheck: ended by SIGTERM"
    assert read_report(tmp_path / "reports/latest").verdict is Verdict.INCOMPLETE


def test_loader_workers_that_ctrl_c_ends_as_well_are_no_error_of_their_rank(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(STUCK_LOADER)
    running = start(tmp_path, "watch", "stuck.py")
    assert running.stderr is not None
    assert WAITING in read_until(running.stderr, WAITING, times=1)
    os.killpg(running.pid, signal.SIGINT)
    running.communicate(timeout=LIMIT_S)
    report = read_report(tmp_path / "reports/latest")
    assert (running.returncode, report.verdict) == (ExitCode.INTERRUPTED, Verdict.INCOMPLETE)
    assert not [each for each in report.findings if each.id == "gradients/step-raised"]
    assert all(each.outcome is not RankOutcome.FAILED for each in report.ranks)


def two_nodes(folder: Path, *options: str) -> list[subprocess.Popen[str]]:
    """Start ``ddpcheck run`` for two nodes of one rank each, which meet on this machine."""
    launch = ["--nnodes", "2", "--nproc-per-node", "1", "--master-port", str(free_port())]
    given = [*launch, "--profile", "quick", "--backend", "gloo", *options]
    given += ["--report-dir", str(folder / "reports")]
    return [start(folder, "run", *given, "--node-rank", str(node)) for node in range(2)]


def test_two_hosts_meet_through_the_elastic_agent(tmp_path: Path) -> None:
    nodes = two_nodes(tmp_path, "--select", "launch,collectives")
    told = [node.communicate(timeout=LIMIT_S) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], told
    assert [stdout.count("verdict: PASS") for stdout, _ in told] == [1, 0]
    report = read_report(tmp_path / "reports/latest")
    assert (report.run.launcher, report.run.world_size) == ("torchrun", 2)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        pytest.param(
            "no_such_file.py:make", ExitCode.USAGE, id="usage", marks=pytest.mark.thorough
        ),
        pytest.param(target("faults/dies_in_second_step:killed"), ExitCode.INCOMPLETE, id="lost"),
    ],
)
def test_the_exit_code_of_the_ranks_is_that_of_both_hosts(
    target: str, code: ExitCode, tmp_path: Path
) -> None:
    nodes = two_nodes(tmp_path, "--select", "gradients", "--target", target)
    told = [node.communicate(timeout=LIMIT_S) for node in nodes]
    assert [node.returncode for node in nodes] == [code, code], told


def test_what_is_interrupted_on_one_host_ends_so_on_both(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    nodes = two_nodes(tmp_path, "--select", "gradients", "--target", "slow.py:make")
    for node in nodes:
        assert node.stderr is not None
        assert WAITING in read_until(node.stderr, WAITING, times=1)
    # The agent starts its ranks in sessions of their own.
    below = psutil.Process(nodes[1].pid).children(recursive=True)
    (rank,) = [each for each in below if each.environ().get("RANK") == "1"]
    rank.send_signal(signal.SIGINT)
    told = [node.communicate(timeout=LIMIT_S) for node in nodes]
    assert [node.returncode for node in nodes] == [ExitCode.INTERRUPTED] * 2, told


def test_a_report_feeds_a_training_run(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    checked = command(
        reports, "ddpcheck", "run", "--profile", "quick", "--report-dir", str(reports)
    )
    assert checked.exit_code == 0, checked.stderr
    words = ["ddpcheck", "train", "--from", str(reports / "latest"), "--steps", "12"]
    trained = command(reports, *words, "--global-batch", "8")
    assert trained.exit_code == 0, trained.stderr
    assert trained.stdout.splitlines()[-1].startswith("training: loss ")
    training = read_report(reports / "latest").training
    assert training is not None
    assert training["loss"][0][1] > training["final_loss"]
    assert training["scaling_efficiency"] > 0
    refused = command(reports, *words, "--nproc-per-node", "3")
    assert refused.exit_code == 1
    assert [line.count("--force") for line in refused.own_lines] == [1]
