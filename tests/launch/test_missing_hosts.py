"""A host of the job does not come, or cannot be reached: who came says so, and in a report."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import PORT, Host, made_hosts, run_ranks
from real_ranks import Ended

from ddpcheck.finding import Finding
from ddpcheck.report import Report, Verdict, read_report

DEADLINE_S = "4"
BOUND_S = 40.0
CANNOT_MEET, INCONSISTENT = "launch/cannot-meet", "launch/inconsistent-ranks"


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    with made_hosts(2, names=("node0", "node1")) as made:
        yield made


def the_error(report: Report) -> Finding:
    (error,) = [each for each in report.findings if each.severity == "error"]
    return error


def reports_in(folder: Path) -> dict[str, Report]:
    """Return the reports of all hosts that wrote one, by host."""
    told = [read_report(file.parent) for file in folder.glob("ddpcheck-*/report.json")]
    return {each.run.hosts[0]: each for each in told}


def come(hosts: list[Host], *present: int, folder: Path) -> Ended:
    """Start the ranks of these hosts alone, of a job of two."""
    environs = [
        {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": hosts[0].address} for rank in present
    ]
    those = [hosts[rank] for rank in present]
    return run_ranks(folder, those, "--deadline", DEADLINE_S, env_per_host=environs)


def test_the_first_host_names_the_rank_that_never_came(hosts: list[Host], tmp_path: Path) -> None:
    ended = come(hosts, 0, folder=tmp_path / "reports")
    assert ended.exit_codes == (4,), ended.stderr
    error = the_error(ended.report)
    assert (error.id, tuple(error.ranks)) == (INCONSISTENT, (1,))
    assert "missing: rank 1" in error.message
    assert "WORLD_SIZE" in error.fix
    assert ended.report.verdict is Verdict.INCOMPLETE
    lost = [each for each in ended.report.ranks if each.outcome == "lost"]
    assert [(each.rank, each.reason) for each in lost] == [(1, "never came")]


def test_the_other_host_says_that_nobody_listens(hosts: list[Host], tmp_path: Path) -> None:
    ended = come(hosts, 1, folder=tmp_path / "reports")
    assert ended.exit_codes == (4,), ended.stderr
    error = the_error(ended.report)
    assert (error.id, tuple(error.ranks)) == (CANNOT_MEET, (1,))
    assert "rank 1 on node1" in error.message
    assert "refused" in error.message
    assert "start rank 0 on the host of" in error.fix
    assert ended.report.verdict is Verdict.INCOMPLETE


def test_a_first_host_whose_link_is_down(hosts: list[Host], tmp_path: Path) -> None:
    hosts[0].ip("link", "set", "eth0", "down")
    ended = come(hosts, 1, folder=tmp_path / "reports")
    assert ended.exit_codes == (4,), ended.stderr
    error = the_error(ended.report)
    assert (error.id, tuple(error.ranks)) == (CANNOT_MEET, (1,))
    assert "the host is down" in error.message
    assert "give node1 a route to" in error.fix


def node(number: int, master: str, folder: Path, *options: str) -> list[str]:
    return [
        *(sys.executable, "-m", "ddpcheck", "run", "--profile", "quick", "--nproc-per-node", "2"),
        *("--nnodes", "2", "--node-rank", str(number), "--master-addr", master),
        *("--master-port", str(PORT), "--report-dir", str(folder), *options),
    ]


def test_a_first_node_that_is_alone_names_the_ranks_of_the_other(
    hosts: list[Host], tmp_path: Path
) -> None:
    command = node(0, hosts[0].address, tmp_path / "reports", "--deadline", DEADLINE_S)
    told = hosts[0].run(command, timeout=BOUND_S)
    assert told.returncode == 4, told.stderr
    report = reports_in(tmp_path / "reports")["node0"]
    error = the_error(report)
    assert (error.id, tuple(error.ranks)) == (CANNOT_MEET, (2, 3))
    assert "node 1 did not come: start the same command there" in error.message
    assert "start the same command on every node" in error.fix
    assert (report.verdict, report.run.requested_world_size) == (Verdict.INCOMPLETE, 4)
    outcomes = [(each.rank, each.host, each.outcome) for each in report.ranks]
    here, away = [(0, "node0", "ok"), (1, "node0", "ok")], [(2, "", "lost"), (3, "", "lost")]
    assert outcomes == [*here, *away]
    assert "verdict: INCOMPLETE" in told.stdout
    assert told.stderr.count("did not come") == 1


@pytest.mark.parametrize(
    ("is_down", "words", "fix"),
    [
        pytest.param(False, "refused", "start rank 0 on the host of", id="absent"),
        pytest.param(True, "is down", "give node1 a route to", id="link down"),
    ],
)
def test_a_node_that_the_first_does_not_answer_says_so(
    is_down: bool, words: str, fix: str, hosts: list[Host], tmp_path: Path
) -> None:
    if is_down:
        hosts[0].ip("link", "set", "eth0", "down")
    command = node(1, hosts[0].address, tmp_path / "reports", "--deadline", DEADLINE_S)
    told = hosts[1].run(command, timeout=BOUND_S)
    assert told.returncode == 4, told.stderr
    report = reports_in(tmp_path / "reports")["node1"]
    error = the_error(report)
    assert (error.id, tuple(error.ranks)) == (CANNOT_MEET, (2, 3))
    assert "node 1 on node1 cannot meet the first node" in error.message
    assert words in error.message
    assert fix in error.fix
    assert [each.outcome for each in report.ranks] == ["lost", "lost", "failed", "failed"]
    assert report.run.launcher == "ddpcheck"
    assert set(report.run.versions) == {"python", "torch"}
    assert "verdict: INCOMPLETE" in told.stdout


def test_what_was_not_asked_for_is_not_judged(hosts: list[Host], tmp_path: Path) -> None:
    options = ("--deadline", "1", "--select", "network", "--format", "json")
    told = hosts[1].run(node(1, hosts[0].address, tmp_path / "reports", *options), timeout=BOUND_S)
    report = reports_in(tmp_path / "reports")["node1"]
    assert report.findings == []
    assert {each.stage for each in report.checks} == {"network", "ranks"}
    assert {each.outcome for each in report.checks} == {"skip"}
    assert '"verdict": "incomplete"' in told.stdout
