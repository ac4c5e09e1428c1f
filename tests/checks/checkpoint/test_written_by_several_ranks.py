from pathlib import Path

import msgspec
import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.checkpoint.written_by_several_ranks import (
    Facts,
    Observer,
    Write,
    judge,
    summarize,
)
from ddpcheck.finding import Confidence, Location, Severity

LINE = Location("/train.py", 40, "save")
LAST = Write("/runs/last.pt", 77, 9, LINE)


def ranks(*writes: Write, machines: str = "aaaa") -> dict[int, Facts]:
    """Return ranks on these machines that all wrote the same."""
    return {rank: Facts(machine, writes) for rank, machine in enumerate(machines)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(), id="nothing was saved"),
        pytest.param(ranks() | {0: Facts("a", (LAST,))}, id="rank 0 alone"),
        pytest.param(
            {r: Facts("a", (Write(f"/runs/rank{r}.pt", r, 9),)) for r in range(4)},
            id="a path for each rank",
        ),
        pytest.param(
            {r: Facts(f"host {r}", (Write("/local/last.pt", 100 + r, 9),)) for r in range(4)},
            id="local disks of several hosts",
        ),
        pytest.param(
            {r: Facts("a", (Write("/runs/best.pt", 77, r),)) for r in range(4)},
            id="one rank after the other",
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_one_file_of_all_ranks_is_an_error_at_its_line() -> None:
    (finding,) = judge(ranks(LAST, msgspec.structs.replace(LAST, step=19)))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1, 2, 3))
    assert finding.location == LINE
    assert "/runs/last.pt after step 9" in finding.message


def test_one_of_each_host_is_a_warning_where_the_file_seems_to_be_shared() -> None:
    facts = ranks(machines="aabb")
    facts |= {rank: Facts(facts[rank].machine, (LAST,)) for rank in (0, 2)}
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.ranks == (0, 2)
    assert "on 2 machines" in finding.message


def test_the_observer_notes_files_alone(tmp_path: Path) -> None:
    observer = Observer(context_with(watches=True, machine="a"))
    file = tmp_path / "last.pt"
    file.write_text("")
    observer.on_step(0)
    for path in (str(file), "", "/dev/null"):
        observer.on_saved(path, {}, LINE)
    (write,) = observer.facts().writes
    assert write == Write(str(file.resolve()), file.stat().st_ino, 1, LINE)
    assert summarize({0: observer.facts()}) == "1 files written by torch.save"


def test_without_a_script_it_is_a_skip() -> None:
    with pytest.raises(Skip):
        Observer(context_with()).facts()


def test_a_line_that_writes_many_files_is_one_finding() -> None:
    line = Location("/train.py", 44, "save")
    writes = tuple(Write(f"/out/step_{each}.pt", each, each, line) for each in (5, 10, 15))
    (finding,) = judge(dict.fromkeys((0, 1), Facts("m", writes)))
    assert "/out/step_5.pt after step 5, and 2 other files likewise" in finding.message


def test_a_file_that_many_tensors_go_into_is_noted_once(tmp_path: Path) -> None:
    observer = Observer(context_with(watches=True, machine="a"))
    file = tmp_path / "__0_0.distcp"
    file.write_text("")
    for _ in range(100):
        observer.on_saved(str(file), {}, LINE)
    assert len(observer.facts().writes) == 1
