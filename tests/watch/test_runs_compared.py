"""Two runs of a script, of which the second is told of the first."""

from __future__ import annotations

from pathlib import Path

from real_ranks import watch

from ddpcheck.finding import Severity

SCRIPT = Path(__file__).parent / "corpus" / "clean" / "epoch_not_set_flat.py"


def test_more_ranks_with_as_much_each_are_told_of(tmp_path: Path) -> None:
    alone = ("--nproc-per-node", "1", "--steps", "3", str(SCRIPT))
    assert watch(tmp_path / "one", *alone).exit_code == 0
    before = ("--baseline", str(tmp_path / "one" / "latest"))
    again = watch(tmp_path / "again", *before, *alone)
    ended = watch(tmp_path / "two", *before, "--steps", "3", str(SCRIPT))
    told = {each.id: each for each in ended.report.findings}
    assert told["gradients/global-batch-changed"].severity is Severity.INFO
    assert told["gradients/global-batch-changed"].ranks == (0, 1)
    assert [each.id for each in again.report.findings] == []
