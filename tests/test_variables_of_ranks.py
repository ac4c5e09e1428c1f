"""Variables and files of settings as real rank processes are given them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from findings import judged, of, only, outcome
from hosts import Host, made_hosts, run_ranks
from probes_on_hosts import probed
from real_ranks import Ended, by_hand, command, free_port, run_by_hand, short

from ddpcheck.finding import Severity

ONLY = ("--select", "environment")
HIDDEN = "environment/hidden-setting"
RANKS_COUNT = 5


def run_with(folder: Path, *given: Mapping[str, str]) -> Ended:
    """Run a rank with each of these variables, and only the checks of the environment."""
    port = free_port()
    ranks = [{**by_hand(rank, len(given), port), **own} for rank, own in enumerate(given)]
    return run_by_hand(folder / "reports", ranks, *ONLY)


def test_a_mistyped_name_on_one_rank(tmp_path: Path) -> None:
    ended = run_with(tmp_path, {}, {"NCCL_IB_DISBLE": "1"})
    assert ended.exit_codes == (0, 0), ended.stderr
    finding = only(ended.report, "environment/unknown-variable")
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
    assert "NCCL_IB_DISBLE on rank 1" in finding.message
    assert finding.fix == "rename NCCL_IB_DISBLE to NCCL_IB_DISABLE"


def test_the_right_name_on_all_ranks(tmp_path: Path) -> None:
    right = {"NCCL_IB_DISABLE": "1"}
    ended = run_with(tmp_path, right, right)
    assert ended.found() == {}
    assert outcome(ended.report, "environment/unknown-variable")[0] == "pass"


def test_a_value_that_cannot_be_read(tmp_path: Path) -> None:
    ended = run_with(tmp_path, {}, {"OMP_NUM_THREADS": "auto"})
    finding = only(ended.report, "environment/invalid-value")
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
    assert "OMP_NUM_THREADS=auto on rank 1" in finding.message
    assert finding.fix == "correct or unset OMP_NUM_THREADS"


def test_more_threads_than_cores(tmp_path: Path) -> None:
    # Each starts a thread a core at the most, whatever it is asked for.
    options = [*short(tmp_path / "reports"), "--nproc-per-node", str(RANKS_COUNT), *ONLY]
    words = ["ddpcheck", "run", *options]
    ended = command(tmp_path / "reports", *words, OMP_NUM_THREADS="64")
    assert ended.exit_code == 0, ended.stderr
    finding = only(ended.report, "environment/too-few-cores")
    assert (finding.severity, finding.ranks) == (Severity.WARNING, tuple(range(RANKS_COUNT)))
    assert finding.title == "OMP_NUM_THREADS is too high"
    assert "OMP_NUM_THREADS=64" in finding.message
    assert "export OMP_NUM_THREADS=1" in finding.fix


def test_a_switch_for_debugging_that_was_left_on(tmp_path: Path) -> None:
    detail = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    ended = run_with(tmp_path, detail, detail)
    finding = of(ended.report, "environment/leftover-switch")
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert "TORCH_DISTRIBUTED_DEBUG=DETAIL on rank 0-1" in finding.message
    assert finding.fix == "unset TORCH_DISTRIBUTED_DEBUG"
    # Which torch crashes with it, known-bad-versions knows.
    others = {"environment/leftover-switch", "environment/known-bad-versions"}
    assert set(ended.found()) <= others


def test_a_switch_that_is_off(tmp_path: Path) -> None:
    ended = run_with(tmp_path, *[{"TORCH_DISTRIBUTED_DEBUG": "OFF"}] * 2)
    assert ended.found() == {}
    assert outcome(ended.report, "environment/leftover-switch")[0] == "pass"


def hide_setting(host: Host, home: Path, setting: str) -> None:
    """Let another folder be this home on this host, with NCCL's file in it."""
    own = home.with_name(f"home-of-{host.pid}")
    own.mkdir()
    (own / ".nccl.conf").write_text(f"{setting}\n")
    host.run(["mount", "--bind", str(own), str(home)], check=True)


@pytest.mark.parametrize("setting", ["NCCL_PROTO=LL", ""])
def test_a_setting_in_a_file_of_one_host(setting: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with made_hosts(2, names=("node0", "node1")) as hosts:
        hide_setting(hosts[1], home, setting)
        environ = {"HOME": str(home)}
        facts = probed(HIDDEN, hosts, tmp_path, environ=environ, device="cuda:0", backend="nccl")
        ended = run_ranks(tmp_path / "reports", hosts, *ONLY, HOME=str(home))
    found = judged(HIDDEN, facts)
    if not setting:
        assert found == []
        assert outcome(ended.report, HIDDEN)[0] == "pass"
        return
    differing, listing = found
    assert (differing.id, differing.severity, differing.ranks) == (HIDDEN, Severity.WARNING, (0, 1))
    assert "no NCCL_PROTO (rank 0); NCCL_PROTO=LL (rank 1)" in differing.message
    assert "alike on all hosts; look at node0, node1" in differing.fix
    assert (listing.severity, listing.ranks) == (Severity.INFO, (1,))
    assert f"NCCL_PROTO=LL in {home}/.nccl.conf" in listing.message
    # Where no GPU is used nobody reads the file.
    told = [each for each in ended.report.findings if each.id == HIDDEN]
    assert [(each.severity, each.ranks) for each in told] == [
        (Severity.INFO, (0, 1)),
        (Severity.INFO, (1,)),
    ]
    assert ended.found() == {}
