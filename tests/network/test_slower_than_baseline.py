"""A link that became slower between two runs is told against the baseline, and by ``diff``."""

from __future__ import annotations

from pathlib import Path

import pytest
from hosts import INTERFACE, Host, made_hosts, run_ranks

from ddpcheck.change import Course, Part
from ddpcheck.cli import main
from ddpcheck.errors import ExitCode

TIMED = ("--select", "collectives/low-bandwidth", "--profile", "standard")
# A tenth of what two made hosts carry at the least on a busy machine.
RATE = ("rate", "100mbit", "burst", "32kb", "latency", "400ms")


def slow_down(host: Host) -> None:
    host.run(["tc", "qdisc", "add", "dev", INTERFACE, "root", "tbf", *RATE], check=True)


def test_a_slower_link_is_worse_in_one_go_and_by_diff(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with made_hosts() as hosts:
        before = run_ranks(tmp_path / "before", hosts, *TIMED)
        slow_down(hosts[1])
        baseline = str(tmp_path / "before" / "latest")
        after = run_ranks(tmp_path / "after", hosts, *TIMED, "--baseline", baseline)
    assert before.exit_codes == (ExitCode.OK, ExitCode.OK), before.stdout
    assert after.exit_codes == (ExitCode.FINDINGS, ExitCode.FINDINGS), after.stdout
    assert after.report.changes
    slower = {
        each.what
        for each in after.report.changes.changes
        if each.part is Part.SPEED and each.course is Course.WORSE
    }
    # Where much else runs on this machine, some of them may be left out, with the reason.
    told = f"{slower} {after.report.changes.left_out}"
    assert "all_reduce of 2 MiB" in told
    assert "batch_isend_irecv ring of 2 MiB" in told
    assert slower
    assert "diff: WORSE" in after.stdout
    assert main(["diff", baseline, str(tmp_path / "after" / "latest")]) == ExitCode.FINDINGS
    assert "worse    speed: " in capsys.readouterr().out
    assert main(["diff", str(tmp_path / "after" / "latest"), baseline]) == ExitCode.OK
