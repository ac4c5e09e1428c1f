"""Faults from before the process group, built for real, from the launch to the report."""

import socket
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.metadata import version as version_of
from pathlib import Path

from findings import of, only, outcome
from hosts import PORT, Host, made_hosts, run_ranks
from real_ranks import (
    LIMIT_S,
    Ended,
    by_hand,
    clean_environment,
    free_port,
    run_by_hand,
    short,
)

from ddpcheck.finding import Severity
from ddpcheck.report import Verdict, read_report

DEADLINE_S = 5
OTHER_TORCH = """
import sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec
        spec = find_spec(name)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            module.__version__ = "2.4.1+cpu"
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""


def each_by_itself(
    folder: Path, started: Sequence[tuple[str, Mapping[str, str]]]
) -> list[subprocess.CompletedProcess[str]]:
    """Run ``INTERPRETER -m ddpcheck run`` as separate commands, at once, each with a folder."""
    processes = [
        subprocess.Popen(
            [
                *(interpreter, "-m", "ddpcheck", "run", "--profile", "quick"),
                *("--deadline", str(DEADLINE_S), "--report-dir", str(folder / str(number))),
            ],
            env={**clean_environment(), **environment},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, (interpreter, environment) in enumerate(started)
    ]
    told = [process.communicate(timeout=LIMIT_S) for process in processes]
    return [
        subprocess.CompletedProcess([], process.returncode, *texts)
        for process, texts in zip(processes, told, strict=True)
    ]


def test_a_port_that_is_none_is_a_finding_in_a_report(tmp_path: Path) -> None:
    ranks = [by_hand(rank, 2, 66660) for rank in range(2)]
    ended = run_by_hand(tmp_path / "reports", ranks)
    assert ended.exit_codes == (2, 2)
    assert ended.stdout.count("verdict: ") == 1
    finding = only(ended.report, "launch/inconsistent-ranks")
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0,))
    assert "MASTER_PORT is '66660'" in finding.message
    assert "a port is 1..65535" in finding.fix
    assert all("between 1 and 65535" in line for line in ended.own_lines)


def test_ranks_that_each_chose_a_port_are_told_where_the_others_are(tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    started = [(sys.executable, by_hand(rank, 2, port)) for rank, port in enumerate(ports)]
    done = each_by_itself(tmp_path, started)
    assert [each.returncode for each in done] == [4, 4]
    for mine, other in ((0, 1), (1, 0)):
        report = read_report(tmp_path / str(mine) / "latest")
        (finding,) = [f for f in report.findings if f.id == "launch/scattered-ranks"]
        assert (finding.severity, finding.ranks) == (Severity.ERROR, (other,))
        assert f"this run meets at 127.0.0.1:{ports[mine]}" in finding.message
        assert f"127.0.0.1:{ports[other]}" in finding.message
        assert "MASTER_PORT once" in finding.fix


def in_order(folder: Path, order: Sequence[int]) -> Ended:
    """Run a rank on each of two hosts, numbered so; MASTER_ADDR is the first host."""
    with made_hosts(2, names=("node0", "node1")) as hosts:
        ranks = [{"RANK": str(rank)} for rank in order]
        return run_ranks(folder / "reports", hosts, env_per_host=ranks)


def test_a_rank_zero_on_another_host_than_the_master_is_named(tmp_path: Path) -> None:
    ended = in_order(tmp_path, [1, 0])
    assert ended.exit_codes == (1, 1), ended.stderr
    finding = only(ended.report, "launch/master-not-rank-zero")
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0,))
    assert "is on node0, but rank 0 runs on node1" in finding.message
    assert "set MASTER_ADDR to node1" in finding.fix


def test_the_same_ranks_the_other_way_round_pass_without_a_word(tmp_path: Path) -> None:
    ended = in_order(tmp_path, [0, 1])
    assert ended.exit_codes == (0, 0), ended.stderr
    assert ended.report.verdict is Verdict.PASS
    assert all(each.severity is Severity.INFO for each in ended.report.findings)


def test_a_variable_that_one_host_was_not_given_is_named(tmp_path: Path) -> None:
    with made_hosts(2, names=("node0", "node1")) as hosts:
        path = {"LD_LIBRARY_PATH": "/opt/libraries"}
        ended = run_ranks(tmp_path / "reports", hosts, env_per_host=[path, {}])
    assert ended.exit_codes == (0, 0), ended.stderr
    finding = only(ended.report, "environment/variables-differ")
    assert finding.severity is Severity.WARNING
    assert "LD_LIBRARY_PATH" in finding.message
    assert finding.ranks == (1,)
    assert "set LD_LIBRARY_PATH alike for all ranks; look first at node1" in finding.fix


ROOT = Path(__file__).parent.parent


def started(folder: Path, hosts: Sequence[Host], *begins: Sequence[str]) -> list[tuple[int, str]]:
    """Run a rank on each host by ``BEGIN RANK=... python -m ddpcheck run``; return how they ended.

    It runs in the folder of this project: a rank may have no PYTHONPATH that leads there.
    """
    words = ["-m", "ddpcheck", "run", *short(folder), "--select", "launch,environment"]
    processes = []
    for rank, (host, begin) in enumerate(zip(hosts, begins, strict=True)):
        torchs = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", **by_hand(rank, len(hosts), PORT)}
        torchs |= {"MASTER_ADDR": hosts[0].address}
        variables = [f"{name}={value}" for name, value in torchs.items()]
        command = [*begin, *variables, sys.executable, *words]
        processes.append(host.start(command, cwd=ROOT, stdout=-1, stderr=-1))
    told = [process.communicate(timeout=LIMIT_S)[1] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, told, strict=True)]


EXPORTED = {
    "PYTHONPATH": str(ROOT),
    "LD_LIBRARY_PATH": "/opt/libraries",
    "NCCL_SOCKET_IFNAME": "eth0",
}


def test_a_host_that_was_started_without_an_environment_is_named(tmp_path: Path) -> None:
    exported = ["env", *(f"{name}={value}" for name, value in EXPORTED.items())]
    with made_hosts(2, names=("node0", "node1")) as hosts:
        ended = started(tmp_path / "reports", hosts, exported, ["env", "-i"])
    assert [code for code, _ in ended] == [0, 0], ended
    report = read_report(tmp_path / "reports" / "latest")
    finding = only(report, "environment/variables-differ")
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "PATH"):
        assert f"{name} is " in finding.message
        assert name in finding.fix
    assert "not set on rank 1 (node1)" in finding.message
    assert "look first at node1, where they are not set" in finding.fix
    told = [each for each in report.findings if each.id == finding.id]
    assert any("NCCL_SOCKET_IFNAME" in each.message for each in told)
    assert {each.ranks for each in told} == {(1,)}


def test_hosts_that_were_all_started_without_one_are_alike(tmp_path: Path) -> None:
    with made_hosts(2, names=("node0", "node1")) as hosts:
        ended = started(tmp_path / "reports", hosts, ["env", "-i"], ["env", "-i"])
    assert [code for code, _ in ended] == [0, 0], ended
    report = read_report(tmp_path / "reports" / "latest")
    assert [each.id for each in report.findings if each.severity is not Severity.INFO] == []
    assert "environment/variables-differ" not in {each.id for each in report.findings}


def another_venv(folder: Path, customization: str) -> str:
    """Return the interpreter of a venv with this one's packages, changed as it starts."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(
        f"{sysconfig.get_path('purelib')}\n{Path(__file__).parent.parent}\n"
    )
    # Debian's Python has a sitecustomize of its own, before that of any venv.
    (packages / "customization.py").write_text(customization)
    (packages / "then.pth").write_text("import customization\n")
    return str(folder / "bin" / "python")


def from_two_venvs(folder: Path, customization: str) -> list[subprocess.CompletedProcess[str]]:
    """Run rank 0 with this interpreter, and rank 1 with that of another venv."""
    port = free_port()
    interpreters = [sys.executable, another_venv(folder / "venv", customization)]
    ranks = [(each, by_hand(rank, 2, port)) for rank, each in enumerate(interpreters)]
    return each_by_itself(folder, ranks)


def test_ranks_from_two_venvs_with_another_torch_are_told_apart(tmp_path: Path) -> None:
    done = from_two_venvs(tmp_path, OTHER_TORCH)
    assert {each.returncode for each in done} == {1}, done[0].stderr + done[1].stderr
    finding = of(read_report(tmp_path / "0" / "latest"), "environment/version-mismatch")
    # Of two ranks nobody can say which one is wrong.
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1))
    here = socket.gethostname()
    version = version_of("torch").partition("+")[0]
    assert f"torch is {version} on rank 0 ({here}), 2.4.1 on rank 1 ({here})" in finding.message
    assert finding.fix == f"install the same environment everywhere; look first at {here}"


def test_ranks_from_two_venvs_with_the_same_packages_pass(tmp_path: Path) -> None:
    done = from_two_venvs(tmp_path, "")
    assert [each.returncode for each in done] == [0, 0], done[0].stderr + done[1].stderr
    report = read_report(tmp_path / "0" / "latest")
    assert outcome(report, "environment/version-mismatch")[0] == "pass"
    assert [each for each in report.findings if each.severity is not Severity.INFO] == []
