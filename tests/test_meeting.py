"""Ranks that cannot meet say so within the deadline, and one of them writes the report."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_ranks import Ended, by_hand, free_port, run, run_by_hand

from ddpcheck.report import RankOutcome, Verdict

DEADLINE_S = 2
# Starting the ranks, and closing the report, beside the deadline.
SLACK_S = 8
CANNOT_MEET = "launch/cannot-meet"
ANOTHER_JOB = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""


def meet(folder: Path, address: str, port: int) -> Ended:
    ranks = [by_hand(rank, 2, port) | {"MASTER_ADDR": address} for rank in range(2)]
    return run_by_hand(folder / "reports", ranks, "--deadline", str(DEADLINE_S))


def assert_told(ended: Ended, *words: str) -> None:
    assert ended.exit_codes == (4, 4), ended.stderr
    assert ended.took_s < DEADLINE_S + SLACK_S
    assert ended.stdout.count("verdict: INCOMPLETE") == 1
    (finding,) = ended.report.findings
    assert (finding.id, finding.ranks) == (CANNOT_MEET, (0,))
    for word in words:
        assert word in finding.message
        assert all(word in line for line in ended.own_lines)
    assert len(ended.own_lines) == 2
    assert "Traceback" not in ended.stderr
    assert ended.report.verdict is Verdict.INCOMPLETE
    assert [each.outcome for each in ended.report.ranks] == [RankOutcome.FAILED, RankOutcome.LOST]


@pytest.fixture(scope="module", autouse=True)
def torch_is_imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What counts is the time of the ranks, not of the one import that tests share."""
    run(tmp_path_factory.mktemp("warm") / "reports", "--select", "launch")


@pytest.fixture
def another_jobs_port() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER_JOB], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as job:
        assert job.stdout is not None
        yield int(job.stdout.readline())
        job.kill()


def test_a_port_on_which_a_stranger_listens_is_named_with_its_owner(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port: int = stranger.getsockname()[1]
        ended = meet(tmp_path, "127.0.0.1", port)
    assert_told(ended, f"127.0.0.1:{port}", "does not answer as a store", "held by pid")


def test_the_store_of_another_job_is_not_taken_for_ours(
    tmp_path: Path, another_jobs_port: int
) -> None:
    ended = meet(tmp_path, "127.0.0.1", another_jobs_port)
    assert_told(ended, "another job's", "held by pid")


def test_a_name_that_does_not_resolve_is_told_at_once(tmp_path: Path) -> None:
    ended = meet(tmp_path, "no-such-host.invalid", free_port())
    assert_told(ended, "no-such-host.invalid", "does not resolve")


def test_an_address_that_leads_nowhere_is_told_at_the_deadline(tmp_path: Path) -> None:
    # RFC 5737: reserved for documentation, routed nowhere.
    ended = meet(tmp_path, "192.0.2.1", free_port())
    assert_told(ended, "192.0.2.1")
