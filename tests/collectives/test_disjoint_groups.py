"""Groups of ranks on two made hosts, one of which is slow inside, for real."""

from pathlib import Path

import pytest
from hosts import made_hosts, run_ranks

SELECT = ("--select", "collectives/unequal-groups")


@pytest.mark.parametrize("limited", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_host_that_is_slow_inside_is_named(tmp_path: Path, limited: bool) -> None:
    with made_hosts(2) as hosts:
        if limited:
            words = ["-i", "lo", "-p", "tcp", "-m", "hashlimit", "--hashlimit-above", "50/sec"]
            more = ["--hashlimit-burst", "20", "--hashlimit-name", "inside", "-j", "DROP"]
            hosts[1].iptables("-A", "INPUT", *words, *more)
        ended = run_ranks(tmp_path / "reports", hosts, *SELECT, ranks_per_host=2)
    found = {each.id: each.ranks for each in ended.report.findings}
    assert found == ({"collectives/unequal-groups": (2, 3)} if limited else {})
