"""A rank that is slow to start is waited for beyond the deadline; one that is not there is not."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_ranks import LIMIT_S, by_hand, clean_environment, free_port

from ddpcheck.report import RankOutcome, Verdict, read_report

DEADLINE_S = 2
# The late rank starts to import torch only when it is told to.
WAIT = """
import sys
sys.stdin.readline()
sys.argv = ["ddpcheck", *sys.argv[2:]]
from ddpcheck.cli import main
sys.exit(main())
"""

# Takes its number in the roll, and stands for longer than a leader looks for its name.
STANDS = """
import sys, time
from ddpcheck.engine import channel
pack = channel.pack
def stand_and_pack(entries):
    time.sleep(0.6)
    return pack(entries)
channel.pack = stand_and_pack
sys.argv = ["ddpcheck", *sys.argv[2:]]
from ddpcheck.cli import main
sys.exit(main())
"""


def start(rank: int, port: int, folder: Path, program: str = "") -> subprocess.Popen[str]:
    how = ["-c", program, "ddpcheck"] if program else ["-m", "ddpcheck"]
    words = ["run", "--profile", "quick", "--select", "launch", "--deadline", str(DEADLINE_S)]
    return subprocess.Popen(
        [sys.executable, *how, *words, "--report-dir", str(folder / "reports")],
        env={**clean_environment(), **by_hand(rank, 2, port)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_rank_that_is_seen_to_start_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    late = start(1, port, tmp_path, WAIT)
    first = start(0, port, tmp_path)
    wait_for_listener(port)  # by now rank 0 has imported torch
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(2 * DEADLINE_S)
    assert late.stdin is not None
    late.stdin.write("go\n")
    late.stdin.flush()
    told = [each.communicate(timeout=LIMIT_S) for each in (first, late)]
    assert (first.returncode, late.returncode) == (0, 0), told
    report = read_report(tmp_path / "reports" / "latest")
    assert report.verdict is Verdict.PASS


def test_a_rank_that_has_come_and_not_told_its_name_yet_is_no_missing_one(tmp_path: Path) -> None:
    port = free_port()
    ranks = [start(0, port, tmp_path), start(1, port, tmp_path, STANDS)]
    told = [each.communicate(timeout=LIMIT_S) for each in ranks]
    assert [each.returncode for each in ranks] == [0, 0], told


def test_a_rank_that_nobody_started_is_missed_at_the_deadline(tmp_path: Path) -> None:
    first = start(0, free_port(), tmp_path)
    told = first.communicate(timeout=LIMIT_S)
    assert first.returncode == 4, told
    report = read_report(tmp_path / "reports" / "latest")
    assert [each.outcome for each in report.ranks] == [RankOutcome.OK, RankOutcome.LOST]
    assert report.run.duration_s < DEADLINE_S + DEADLINE_S


def wait_for_listener(port: int) -> None:
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(port)
