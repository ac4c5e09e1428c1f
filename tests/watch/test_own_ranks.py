"""Scripts that start their own ranks, or say themselves where they meet, under ``ddpcheck watch``."""

from __future__ import annotations

from pathlib import Path

from real_ranks import Ended, free_port, watch

from ddpcheck.errors import ExitCode
from ddpcheck.finding import Finding, Severity
from ddpcheck.report import RankOutcome, Verdict

# Far below gloo's timeout of half an hour, and what the roll call may take.
BOUND_S = 45.0
SCRIPTS = Path(__file__).parent / "scripts"


def started(tmp_path: Path, by: str, *words: str, before: tuple[str, ...] = ()) -> Ended:
    own = ("--by", by, "--port", str(free_port()), *words)
    return watch(tmp_path / "reports", *before, str(SCRIPTS / "own_ranks.py"), *own)


def place(tmp_path: Path, *words: str) -> Ended:
    return watch(tmp_path / "reports", str(SCRIPTS / "own_place.py"), *words)


def error_of(ended: Ended) -> Finding:
    (finding,) = [each for each in ended.report.findings if each.severity is Severity.ERROR]
    return finding


def test_spawned_ranks_are_those_of_the_report(tmp_path: Path) -> None:
    ended = started(tmp_path, "spawn")
    assert (ended.exit_code, ended.found()) == (0, {})
    assert [each.rank for each in ended.report.ranks] == [0, 1]
    assert ended.report.run.launcher == "script"
    assert ended.stdout.count("came to its end") == 3
    summaries = {each.id: each.summary for each in ended.report.checks}
    assert "over 8 steps" in summaries["gradients/replicas-differ"]


def test_a_fault_in_forked_ranks_is_found_at_its_line(tmp_path: Path) -> None:
    ended = started(tmp_path, "fork", "--fault", "same-data", before=("--steps", "4"))
    assert ended.found() == {"data/same-batches": "error"}
    finding = error_of(ended)
    assert finding.ranks == (0, 1)
    assert finding.location is not None
    assert Path(finding.location.file).name == "own_ranks.py"
    # The report came in the middle, and the script was stopped with its ranks.
    assert "came to its end" not in ended.stdout
    assert ended.exit_code == ExitCode.FINDINGS


def test_a_rank_started_by_hand_that_raises_is_named(tmp_path: Path) -> None:
    ended = started(tmp_path, "hand", "--fault", "raise")
    finding = error_of(ended)
    assert finding.ranks == (1,)
    assert "no such label" in finding.message
    assert finding.location is not None
    assert Path(finding.location.file).name == "own_ranks.py"
    assert "ValueError: no such label" in ended.stderr


def test_a_rank_that_dies_is_named(tmp_path: Path) -> None:
    ended = started(tmp_path, "fork", "--fault", "die")
    assert ended.exit_code == ExitCode.INCOMPLETE
    outcomes = {each.rank: each.outcome for each in ended.report.ranks}
    assert outcomes[1] is RankOutcome.LOST
    assert ended.found() == {"ranks/lost": "error"}
    assert error_of(ended).ranks == (1,)
    assert ended.took_s < BOUND_S


def test_a_rank_that_raises_before_it_has_a_group_is_named(tmp_path: Path) -> None:
    ended = started(tmp_path, "fork", "--fault", "raise-early")
    raised = [each for each in ended.report.findings if each.id == "gradients/step-raised"]
    # On a busy machine the other rank is late for its end, and told as well.
    (finding,) = [each for each in raised if each.severity is Severity.ERROR]
    assert finding.ranks == (1,)
    assert "no such dataset" in finding.message
    assert ended.took_s < BOUND_S


def test_a_script_that_raises_before_it_starts_any_is_told_so(tmp_path: Path) -> None:
    ended = started(tmp_path, "fork", "--fault", "raise-first")
    assert ended.exit_code == ExitCode.USAGE
    (line,) = ended.own_lines
    assert "raised ValueError, as shown above" in line
    assert "ValueError: no such configuration" in ended.stderr


def test_a_script_that_starts_none_after_all_is_told_what_to_do(tmp_path: Path) -> None:
    ended = started(tmp_path, "none")
    assert ended.exit_code == ExitCode.USAGE
    (line,) = ended.own_lines
    assert "made a process group" in line
    assert "torchrun --nproc-per-node 2 -m ddpcheck watch" in line


def test_more_ranks_than_the_script_starts_here_are_told(tmp_path: Path) -> None:
    ended = started(tmp_path, "hand", "--world", "8")
    assert ended.exit_code == ExitCode.USAGE
    (line,) = ended.own_lines
    assert "a group of 8 ranks, and has started 2 of them here" in line
    assert ended.took_s < BOUND_S


def test_a_script_may_say_where_its_ranks_meet(tmp_path: Path) -> None:
    ended = place(tmp_path, "--port", str(free_port()))
    assert (ended.exit_code, ended.report.verdict) == (0, Verdict.PASS)
    assert ended.stdout.count("came to its end") == 2


def test_a_group_of_more_ranks_than_were_started_is_told(tmp_path: Path) -> None:
    ended = place(tmp_path, "--tcp", str(free_port()), "--ranks", "4")
    assert ended.exit_code == ExitCode.USAGE
    (line,) = ended.own_lines
    assert "own_place.py:" in line
    assert "--nproc-per-node 4" in line


def test_two_processes_that_take_themselves_for_one_rank_are_told(tmp_path: Path) -> None:
    ended = place(tmp_path, "--tcp", str(free_port()), "--rank", "0")
    assert ended.exit_code == ExitCode.USAGE
    (line,) = ended.own_lines
    assert "two processes are rank 0" in line


def test_ranks_that_are_started_out_of_sight_are_followed_at_the_second_try(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import importlib, runpy, sys\n"
        f"sys.argv[1:] = ['--by', 'fork', '--port', '{free_port()}']\n"
        f"runpy.run_path({str(SCRIPTS / 'own_ranks.py')!r}, run_name='__main__')\n"
    )
    ended = watch(tmp_path / "reports", str(script))
    assert (ended.exit_code, ended.found()) == (0, {})
    assert ended.report.run.launcher == "script"
    assert "followed" in ended.own_lines[0]
