"""A leader that is stopped, succeeded, and goes on: one verdict, and nobody else is blamed."""

import json
from pathlib import Path

import pytest
import real_ranks
from cells import DEADLINE_S, Cell, environment, injection

from ddpcheck.engine.plan import silence_s
from ddpcheck.finding import Severity
from ddpcheck.report import Verdict

CELL = Cell("pause", 0, "by-hand", "in-collective")


def paused(tmp_path: Path, pause_s: float) -> real_ranks.Ended:
    reports = tmp_path / "reports"
    plan = CELL._asdict() | {"deadline_s": DEADLINE_S, "pause_s": pause_s}
    injection().write_text(json.dumps(plan))
    port = real_ranks.free_port()
    ranks = [real_ranks.by_hand(rank, 2, port) for rank in range(2)]
    words = ["run", "--profile", "quick", "--report-dir", str(reports)]
    words += ["--deadline", str(DEADLINE_S)]
    try:
        codes, stdout, stderr = real_ranks.server(**environment()).ask(words, ranks)
    finally:
        injection().unlink()
    assert injection().with_suffix(".at").exists(), "the leader was not stopped"
    return real_ranks.Ended(tuple(codes), stdout, stderr, 0.0, reports)


def test_a_short_pause_is_no_fault(tmp_path: Path) -> None:
    ended = paused(tmp_path, silence_s(DEADLINE_S) / 3)
    assert ended.exit_codes == (0, 0), ended.stdout + ended.stderr
    assert ended.report.verdict is Verdict.PASS


@pytest.mark.parametrize("share", [0.9, 1.1, 2.0])
def test_whenever_it_comes_back_there_is_one_verdict(tmp_path: Path, share: float) -> None:
    ended = paused(tmp_path, silence_s(DEADLINE_S) * share)
    assert ended.stdout.count("verdict: ") == 1, ended.stdout + ended.stderr
    assert len(list(ended.report_dir.glob("*/report.json"))) == 2  # the run and "latest"
    named = {r for f in ended.report.findings if f.severity is Severity.ERROR for r in f.ranks}
    assert named <= {0}
    # The one that came back may have been ended for its silence; the other one tells the verdict.
    assert ended.exit_codes[1] == (4 if named else 0)
