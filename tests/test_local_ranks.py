"""A LOCAL_RANK that is not the number of a process on its host, on real ranks; and its twin."""

from pathlib import Path

import pytest
from hosts import made_hosts, run_ranks
from real_ranks import Ended, by_hand, free_port, run_by_hand

from ddpcheck.errors import ExitCode
from ddpcheck.report import Verdict

RANKS = "launch/inconsistent-ranks"
SHORT = ("--select", "launch", "--fail-on", "warning")


def assert_named(ended: Ended, ranks: tuple[int, ...], words: list[str]) -> None:
    assert ended.found() == {RANKS: "error"}
    (finding,) = [each for each in ended.report.findings if each.id == RANKS]
    assert finding.ranks == ranks
    assert "LOCAL_RANK does not count the processes of a host" in finding.message
    assert [word for word in words if word not in finding.message] == []
    assert finding.fix.startswith("start the ranks with torchrun, or correct the launch script")
    assert ended.exit_codes == (ExitCode.FINDINGS, ExitCode.FINDINGS)
    assert ended.report.verdict == Verdict.FAIL


def assert_silent(ended: Ended) -> None:
    assert ended.exit_codes == (ExitCode.OK, ExitCode.OK), ended.stderr
    assert ended.report.findings == []


def on_one_host(folder: Path, *local_ranks: str) -> Ended:
    port = free_port()
    size = str(len(local_ranks))
    local = [{"LOCAL_RANK": each, "LOCAL_WORLD_SIZE": size} for each in local_ranks]
    ranks = [by_hand(rank, len(local), port) | own for rank, own in enumerate(local)]
    return run_by_hand(folder / "reports", ranks, *SHORT)


def on_two_hosts(folder: Path, *local_ranks: str) -> Ended:
    with made_hosts(2, names=("node0", "node1")) as hosts:
        local = [{"LOCAL_RANK": each} for each in local_ranks]
        return run_ranks(folder / "reports", hosts, *SHORT, env_per_host=local)


def test_one_local_rank_twice_on_a_host_is_named(tmp_path: Path) -> None:
    assert_named(on_one_host(tmp_path, "0", "0"), (0, 1), ["0 of 2, 0 of 2"])


def test_a_local_rank_that_counts_over_all_hosts_is_named(tmp_path: Path) -> None:
    assert_named(on_two_hosts(tmp_path, "0", "1"), (1,), ["1 of 1", "rank 1 (node1, pid"])


@pytest.mark.parametrize("local_ranks", [("0", "1"), ("1", "0")])
def test_local_ranks_that_number_a_host_are_silent(
    local_ranks: tuple[str, str], tmp_path: Path
) -> None:
    assert_silent(on_one_host(tmp_path, *local_ranks))


def test_local_ranks_that_begin_at_0_on_each_host_are_silent(tmp_path: Path) -> None:
    assert_silent(on_two_hosts(tmp_path, "0", "0"))
