"""A settings file and real ranks: they all get it, or it is told that they do not."""

from collections.abc import Callable
from pathlib import Path

import pytest
from findings import of, outcome
from real_ranks import (
    Ended,
    by_hand,
    command,
    free_port,
    run,
    run_by_hand,
    run_under_torchrun,
    short,
    watch,
)

from ddpcheck.finding import Severity
from ddpcheck.report import Verdict

MEMORY = "environment/low-memory"
TYPO = "environment/unknown-variable"
MISTYPED = {"NCCL_IB_DISBLE": "1"}
# More memory than any machine has.
SCARCE = f"""
select = ["environment"]
[thresholds."{MEMORY}"]
GROWTH_BYTES = 1_000_000_000_000_000
"""
SCRIPT = Path(__file__).parent / "watch/scripts/plain.py"


def written(folder: Path, text: str, name: str = "own.toml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def suppression(check: str, *more: str) -> str:
    return "\n".join(["[[suppress]]", f"check = '{check}'", "reason = 'ticket 7'", *more, ""])


def mistyped(folder: Path, text: str) -> Ended:
    """Run with a mistyped variable in a folder that has this ddpcheck.toml."""
    reports = folder / "reports"
    written(folder, f"select = ['environment']\n{text}", "ddpcheck.toml")
    return command(reports, "ddpcheck", "run", *short(reports), **MISTYPED)


@pytest.mark.parametrize("launch", [run, run_under_torchrun])
def test_a_threshold_reaches_every_rank_and_stands_in_the_report(
    launch: Callable[..., Ended], tmp_path: Path
) -> None:
    ended = launch(tmp_path / "reports", "--config", written(tmp_path, SCARCE))
    assert ended.exit_code == 0, ended.stderr
    assert of(ended.report, MEMORY).ranks == (0, 1)
    assert f"threshold of {MEMORY}: GROWTH_BYTES is 1000000000000000 instead of" in ended.stdout
    asked = ended.report.run.configuration
    assert asked is not None
    assert [(each.check, each.default) for each in asked.thresholds] == [(MEMORY, 86 * 2**20)]


def test_a_severity_decides_on_the_exit_code(tmp_path: Path) -> None:
    ended = mistyped(tmp_path, f"[severity]\n'{TYPO}' = 'error'")
    assert (ended.exit_code, ended.found()) == (1, {TYPO: "error"})
    assert f"severity of {TYPO}: error" in ended.stdout


def test_a_suppressed_finding_does_not_count_and_is_shown(tmp_path: Path) -> None:
    known = suppression(TYPO, "match = 'DISBLE'")
    ended = mistyped(tmp_path, f"fail-on = 'warning'\n{known}")
    assert (ended.exit_code, ended.found(), ended.report.verdict) == (0, {}, Verdict.PASS)
    assert f"suppressed warning {TYPO}, ranks 0-1 " in ended.stdout
    assert "(reason: ticket 7)" in " ".join(ended.stdout.split())
    assert "1 suppressed" in ended.stdout.splitlines()[-1]
    (kept,) = ended.report.suppressed
    assert (kept.reason, kept.finding.severity) == ("ticket 7", Severity.WARNING)


def test_what_is_accepted_lets_the_run_go_on(tmp_path: Path) -> None:
    mesh = "launch/mesh-does-not-fit"
    options = ("--select", f"{mesh},{MEMORY}", "--mesh", "dp=3")
    stopped = run(tmp_path / "stopped", *options)
    assert (stopped.exit_code, outcome(stopped.report, MEMORY)[0]) == (1, "skip")
    config = written(tmp_path, suppression(mesh))
    ended = run(tmp_path / "reports", "--config", config, *options)
    assert (ended.exit_code, outcome(ended.report, MEMORY)[0]) == (0, "pass"), ended.stderr


def test_one_that_is_no_longer_needed_is_told(tmp_path: Path) -> None:
    ended = mistyped(tmp_path, suppression(TYPO, "match = 'NCCL_SOCKET'"))
    assert ended.found() == {TYPO: "warning"}
    told = f"unused suppression of {TYPO} matching NCCL_SOCKET (reason: ticket 7): remove it"
    assert told in " ".join(ended.stdout.split())


def test_hosts_whose_files_differ_are_told_so_at_once(tmp_path: Path) -> None:
    mine = written(tmp_path, suppression(TYPO), "mine.toml")
    theirs = written(tmp_path, SCARCE, "theirs.toml")
    port = free_port()
    ranks = [
        {**by_hand(rank, 2, port), "DDPCHECK_CONFIG": file}
        for rank, file in enumerate((mine, theirs))
    ]
    ended = run_by_hand(tmp_path / "reports", ranks)
    assert ended.exit_codes == (2, 2)
    (line,) = ended.own_lines
    assert "rank 1 on " in line
    assert "was started with other settings than rank 0" in line
    for word in ("--select, --skip or installed checks", "suppress", "thresholds", mine, theirs):
        assert word in line
    assert not (tmp_path / "reports").exists()


def test_files_that_say_the_same_are_one(tmp_path: Path) -> None:
    files = [written(tmp_path, SCARCE, name) for name in ("mine.toml", "theirs.toml")]
    port = free_port()
    ranks = [{**by_hand(rank, 2, port), "DDPCHECK_CONFIG": file} for rank, file in enumerate(files)]
    ended = run_by_hand(tmp_path / "reports", ranks)
    assert ended.exit_codes == (0, 0), ended.stderr
    assert of(ended.report, MEMORY).ranks == (0, 1)


def test_a_suppression_by_the_line_of_a_watched_script(tmp_path: Path) -> None:
    script = ("--steps", "10", str(SCRIPT), "--fault", "epoch", "--steps", "12")
    before = watch(tmp_path / "before", *script)
    (found,) = [each for each in before.report.findings if each.severity is Severity.ERROR]
    assert found.location is not None
    text = suppression(found.id, f"location = 'plain.py:{found.location.line}'")
    config = written(tmp_path, text)
    ended = watch(tmp_path / "reports", "--config", config, *script)
    assert (before.exit_code, ended.exit_code) == (1, 0), ended.stderr
    assert [each.finding.id for each in ended.report.suppressed] == [found.id]
