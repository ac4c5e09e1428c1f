"""accelerate steps a scheduler for each rank: right by its examples' plans, and wrong by others."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from real_ranks import watch

from ddpcheck.finding import Severity

SCRIPT = Path(__file__).parent / "scripts" / "accelerated.py"
SCHEDULE = "gradients/schedule-too-fast"

pytestmark = pytest.mark.skipif(not find_spec("accelerate"), reason="accelerate is not installed")


@pytest.mark.parametrize(
    ("planned", "severity", "words"),
    [
        ("before", Severity.INFO, "that is right where its plan of 60"),
        ("after", Severity.WARNING, "its plan of 30 is in the optimizer's steps"),
    ],
)
def test_a_schedule_that_accelerate_prepared(
    planned: str, severity: Severity, words: str, tmp_path: Path
) -> None:
    ended = watch(tmp_path / "reports", "--steps", "6", str(SCRIPT), planned)
    (finding,) = [each for each in ended.report.findings if each.id == SCHEDULE]
    assert (finding.severity, finding.ranks) == (severity, (0, 1))
    assert words in finding.message
    assert finding.location is not None
    line = SCRIPT.read_text().splitlines()[finding.location.line - 1]
    assert line.strip() == "scheduler.step()"
    assert set(ended.found()) == ({SCHEDULE} if severity is Severity.WARNING else set())


def test_one_that_goes_on_after_its_end(tmp_path: Path) -> None:
    ended = watch(tmp_path / "reports", "--steps", "24", str(SCRIPT), "after")
    (finding,) = [each for each in ended.report.findings if each.id == SCHEDULE]
    assert "the optimizer made 9 of 24 after its plan of 30 was at its end" in finding.message
