from pathlib import Path

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.launch.local_rank_argument import Facts, judge, probe
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.script import Place

OLD = "parser.add_argument('--local_rank')"


def job(world: int, *places: Place) -> dict[int, Facts]:
    return {rank: Facts("/train.py", places) for rank in range(world)}


@pytest.mark.parametrize("facts", [job(1, Place(4, OLD)), job(8)])
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(("note", "severity"), [("", "warning"), ("environment", "info")])
def test_one_finding_for_a_script(note: str, severity: str) -> None:
    (found,) = judge(job(8, Place(4, OLD, note)))
    assert (found.severity, found.confidence) == (Severity(severity), Confidence.MEDIUM)
    assert found.ranks == tuple(range(8))
    assert str(found.location) == "/train.py:4"
    assert "LOCAL_RANK" in found.fix


def test_hosts_with_different_scripts_are_told_apart() -> None:
    facts = job(4, Place(4, OLD)) | {3: Facts("/train.py", (Place(5, OLD),)), 2: Facts("/t.py", ())}
    assert [found.ranks for found in judge(facts)] == [(0, 1), (3,)]


def test_probe_reads_the_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import argparse\nparser = argparse.ArgumentParser()\n{OLD}\n")
    facts = probe(context_with(script=str(script)))
    assert facts.places == (Place(3, OLD),)


def test_a_built_in_target_is_skipped() -> None:
    with pytest.raises(Skip, match="built in"):
        probe(context_with())
