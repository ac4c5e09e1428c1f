"""Ranks that cannot meet say so within the deadline, and one of them writes the report."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from real_ranks import Ended, by_hand, clean_environment, free_port, run, run_by_hand

from ddpcheck.finding import Finding, Severity
from ddpcheck.machine.ports import program_of
from ddpcheck.machine.sockets import bound_only
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

STOPPED_STORE = """
import os, signal, sys
from ddpcheck.launch.host import host_beside
from ddpcheck.launch.identity import identity
from ddpcheck.machine.ports import owner_pid
assert host_beside(identity(os.environ), 60.0)
host = owner_pid(int(os.environ["MASTER_PORT"]))
os.kill(host, signal.SIGSTOP)
print(host, flush=True)
sys.stdin.read()
os.kill(host, signal.SIGKILL)
"""


LINGERING_STORE = """
import os, sys, time
from ddpcheck.launch.host import ARRIVALS, BEGUN, ENDED, HOSTED, KEYS, LEAVE_S
from ddpcheck.launch.stores import TCPStore
port = int(os.environ["MASTER_PORT"])
store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
store.set(BEGUN, "0")
store.set(f"{KEYS}/0/{HOSTED}", "here")
store.add(f"{KEYS}/0/{ARRIVALS}", 2)
store.set(f"{KEYS}/0/{ENDED}", "")
print(port, flush=True)
time.sleep(LEAVE_S)
"""


def meet(folder: Path, address: str, port: int) -> Ended:
    ranks = [by_hand(rank, 2, port) | {"MASTER_ADDR": address} for rank in range(2)]
    return run_by_hand(folder / "reports", ranks, "--deadline", str(DEADLINE_S))


def assert_told(ended: Ended, *words: str) -> Finding:
    assert ended.exit_codes == (4, 4), ended.stderr
    assert ended.took_s < DEADLINE_S + SLACK_S
    assert ended.stdout.count("verdict: INCOMPLETE") == 1
    (finding,) = ended.report.findings
    assert (finding.id, finding.severity) == (CANNOT_MEET, Severity.ERROR)
    assert finding.ranks == (0,)
    for word in words:
        assert word in finding.message
        assert all(word in line for line in ended.own_lines)
    assert len(ended.own_lines) == 2
    assert "Traceback" not in ended.stderr
    assert ended.report.verdict is Verdict.INCOMPLETE
    assert [each.outcome for each in ended.report.ranks] == [RankOutcome.FAILED, RankOutcome.LOST]
    return finding


@pytest.fixture(scope="module", autouse=True)
def torch_is_imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What counts is the time of the ranks, not of the one import that tests share."""
    run(tmp_path_factory.mktemp("warm") / "reports", "--select", "launch")


@pytest.fixture
def another_job() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER_JOB], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as job:
        yield job
        job.kill()


def told_of(process: psutil.Process) -> list[str]:
    """Return the words that name a process: its pid, its user and its program."""
    program = program_of(process.cmdline())
    return [f"held by pid {process.pid} of user {process.username()}", f"({program})"]


def listening(sockets: ExitStack) -> socket.socket:
    return sockets.enter_context(socket.create_server(("127.0.0.1", 0)))


def only_bound(sockets: ExitStack) -> socket.socket:
    stranger = sockets.enter_context(socket.socket())
    stranger.bind(("", 0))
    return stranger


def connected(sockets: ExitStack) -> socket.socket:
    server = listening(sockets)
    return sockets.enter_context(socket.create_connection(server.getsockname()))


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (listening, ["does not answer as a store"]),
        (only_bound, ["the port is taken: nothing listens there", "bound to it without listening"]),
        (connected, ["the port is taken: nothing listens there", "connected through it"]),
    ],
    ids=["listening", "only bound", "connected"],
)
def test_a_port_that_a_stranger_holds_is_told_with_its_owner(
    held: Callable[[ExitStack], socket.socket], words: list[str], tmp_path: Path
) -> None:
    with ExitStack() as sockets:
        port: int = held(sockets).getsockname()[1]
        if held is only_bound and not bound_only(port):
            pytest.skip(
                "this kernel, before Linux 6.8, does not tell of sockets that are only bound"
            )
        ended = meet(tmp_path, "127.0.0.1", port)
    finding = assert_told(ended, f"127.0.0.1:{port}", *words, *told_of(psutil.Process()))
    assert f"pid {os.getpid()}" in str(finding.evidence["owner"])
    assert finding.fix.startswith("end that process if it is left over, or set another MASTER_PORT")


def test_the_store_of_another_job_is_not_taken_for_ours(
    tmp_path: Path, another_job: subprocess.Popen[bytes]
) -> None:
    assert another_job.stdout is not None
    port = int(another_job.stdout.readline())
    ended = meet(tmp_path, "127.0.0.1", port)
    words = told_of(psutil.Process(another_job.pid))
    finding = assert_told(ended, "another job's", *words)
    assert finding.fix.startswith("end that process if it is left over, or set another MASTER_PORT")


def test_a_store_of_a_run_that_does_not_answer_is_no_proxy(tmp_path: Path) -> None:
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED_STORE],
        env={**clean_environment(), **by_hand(0, 2, port)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as job:
        assert job.stdout is not None
        host = int(job.stdout.readline())
        ended = meet(tmp_path, "127.0.0.1", port)
    finding = assert_told(ended, "does not answer in time", f"held by pid {host}")
    assert "(ddpcheck store)" in finding.message


def test_a_name_that_does_not_resolve_is_told_in_time(tmp_path: Path) -> None:
    ended = meet(tmp_path, "no-such-host.invalid", free_port())
    # Or "did not resolve within 2 s": that is for the name server of this machine to choose.
    finding = assert_told(ended, "the name no-such-host.invalid d", " not resolve")
    assert "set MASTER_ADDR to the IP address of rank 0's host" in finding.fix
    assert "no-such-host.invalid is none" in finding.fix


def test_an_address_that_leads_nowhere_is_told_at_the_deadline(tmp_path: Path) -> None:
    # RFC 5737: reserved for documentation, routed nowhere.
    ended = meet(tmp_path, "192.0.2.1", free_port())
    assert_told(ended, "192.0.2.1")


def test_a_run_waits_for_the_store_of_the_one_before_to_go(tmp_path: Path) -> None:
    port = free_port()
    ranks = [by_hand(rank, 2, port) for rank in range(2)]
    with subprocess.Popen(
        [sys.executable, "-c", LINGERING_STORE],
        env={**clean_environment(), **ranks[0]},
        stdout=subprocess.PIPE,
    ) as before:
        assert before.stdout is not None
        assert int(before.stdout.readline()) == port
        ended = run_by_hand(tmp_path / "reports", ranks, "--select", "launch")
    assert ended.exit_codes == (0, 0), ended.stdout + ended.stderr
    assert ended.report.run.world_size == 2
