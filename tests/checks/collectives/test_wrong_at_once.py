from pathlib import Path

import pytest
from real_ranks import run, target

from ddpcheck.checks.collectives.wrong_at_once import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.measures.wrong_elements import Wrong

CHECK = "collectives/wrong-at-once"
# What trains a target makes that its file is imported.
TRAINS = "gradients/step-raised"
RIGHT = Facts("gloo", 16, 600_000)
LATE = Wrong("broadcast", "float32", "move", 1023, "contiguous", "async", 0, 5.0, 127.0, 1023, 4)


@pytest.mark.parametrize("world", [1, 2, 8])
def test_right_ones_are_silent(world: int) -> None:
    assert judge(dict.fromkeys(range(world), RIGHT)) == []


def test_a_wrong_one_is_an_error() -> None:
    bad = Facts("gloo", 16, 600_000, {"broadcast": 2}, (LATE,))
    (finding,) = judge({0: RIGHT, 1: bad})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
    assert finding.title == (
        "broadcast gives wrong values on 1 of 2 ranks while several groups are at work"
    )
    assert "element 0 is 127, expected 5; 1023 elements of it are wrong" in finding.message


def test_summary() -> None:
    assert summarize({0: RIGHT}) == "16 collectives of several groups at once, 600,000 elements"


def test_real_ranks_with_a_group_that_is_not_waited_for(tmp_path: Path) -> None:
    place = target("faults/second_group_is_not_waited_for:build")
    ended = run(tmp_path / "reports", "--target", place, "--select", f"{CHECK},{TRAINS}")
    assert ended.found() == {CHECK: "error"}
    (finding,) = (each for each in ended.report.findings if each.id == CHECK)
    assert finding.ranks == (1,)
