"""Collectives of several groups at once, on real ranks."""

from pathlib import Path

from real_ranks import run, target

CHECK = "collectives/wrong-at-once"
# What trains a target makes that its file is imported.
TRAINS = "gradients/step-raised"


def test_real_ranks_with_a_group_that_is_not_waited_for(tmp_path: Path) -> None:
    place = target("faults/second_group_is_not_waited_for:build")
    ended = run(tmp_path / "reports", "--target", place, "--select", f"{CHECK},{TRAINS}")
    assert ended.found() == {CHECK: "error"}
    (finding,) = (each for each in ended.report.findings if each.id == CHECK)
    assert finding.ranks == (1,)
