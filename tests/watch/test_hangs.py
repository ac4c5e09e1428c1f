"""A watched script in which no rank moves any more is reported on within seconds."""

from pathlib import Path

import pytest
from real_ranks import Ended, command, watch

from ddpcheck.errors import ExitCode
from ddpcheck.report import Verdict

SCRIPT = str(Path(__file__).parent / "scripts" / "hangs.py")
# Those 10 s that are promised, and the start of the ranks and their steps.
BOUND_S = 40.0


def watched(tmp_path: Path, fault: str) -> Ended:
    return watch(tmp_path / "reports", SCRIPT, fault)


@pytest.mark.parametrize(
    ("fault", "finding", "words"),
    [
        ("evaluates-on-rank-0", "ranks/other-collective", "called barrier"),
        ("both-send", "ranks/stalled", "send"),
    ],
)
def test_a_standstill_is_told_with_the_lines(
    tmp_path: Path, fault: str, finding: str, words: str
) -> None:
    ended = watched(tmp_path, fault)
    assert ended.found() == {finding: "error"}
    assert (ended.exit_code, ended.report.verdict) == (ExitCode.INCOMPLETE, Verdict.INCOMPLETE)
    (told,) = [each for each in ended.report.findings if each.id == finding]
    assert words in told.message
    stacks = [each.last_seen.stack for each in ended.report.ranks if each.last_seen]
    assert all("in validate" in stack for stack in stacks)
    assert ended.took_s < BOUND_S


def test_what_led_to_it_is_told_by_those_who_saw_it(tmp_path: Path) -> None:
    ended = watched(tmp_path, "skips-on-rank-1")
    assert ended.found()["gradients/backward-skipped"] == "error"
    (told,) = [each for each in ended.report.findings if each.id == "gradients/backward-skipped"]
    assert told.ranks == (1,)
    assert ended.took_s < BOUND_S


def test_a_rank_that_is_slow_keeps_nobody_from_the_end(tmp_path: Path) -> None:
    ended = watched(tmp_path, "slow")
    assert (ended.found(), ended.exit_code) == ({}, 0)
    assert ended.stdout.count("came to its end") == 2


def test_who_evaluates_alone_is_told_with_its_line_though_torchrun_ends_the_other(
    tmp_path: Path,
) -> None:
    script = str(Path(SCRIPT).with_name("evaluates_alone.py"))
    launch = ["torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    watched = ["-m", "ddpcheck", "watch", "--report-dir", str(tmp_path / "reports"), script]
    ended = command(tmp_path / "reports", *launch, *watched)
    assert ended.found() == {"ranks/other-collective": "error"}
    (told,) = [each for each in ended.report.findings if each.id == "ranks/other-collective"]
    assert told.ranks == (0, 1)
    assert told.location is not None
    assert told.location.function == "logged"
