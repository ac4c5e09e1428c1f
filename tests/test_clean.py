"""What is healthy stays silent: the trainings in ``clean`` pass on real ranks."""

import ast
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from real_ranks import run, target

CLEAN = Path(__file__).parent / "clean"
# Comparing reductions has nothing to do with the target.
SKIPPED = "collectives/[lmsw]*"
OPTIONS = ("--skip", SKIPPED, "--fail-on", "warning", "--deadline", "10")


def factories() -> list[ParameterSet]:
    """Return the places of all factories: the functions that end with what a factory returns."""
    found = [
        f"{file.stem}:{node.name}"
        for file in sorted(CLEAN.glob("*.py"))
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and isinstance(node.body[-1], ast.Return)
        and _is_target(node.body[-1].value)
    ]
    return [pytest.param(place, id=place) for place in found]


def _is_target(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Tuple) or (
        isinstance(value, ast.Call) and ast.unparse(value.func) == "Target"
    )


@pytest.mark.parametrize("place", factories())
def test_healthy_training_passes(place: str, tmp_path: Path) -> None:
    ended = run(tmp_path / "reports", "--target", target(f"clean/{place}"), *OPTIONS)
    assert ended.found() == {}
    assert [each.id for each in ended.report.checks if each.outcome == "error"] == []
    assert ended.exit_code == 0


def test_unused_parameters_that_ddp_was_told_of_are_recommended_on(tmp_path: Path) -> None:
    place = target("clean/twins:unused_and_told_so")
    ended = run(tmp_path / "reports", "--target", place, "--select", "gradients")
    assert ended.report.recommendation["find_unused_parameters"].value is True


def test_healthy_training_needs_no_such_recommendation(tmp_path: Path) -> None:
    place = target("clean/ways_to_train:subclass")
    ended = run(tmp_path / "reports", "--target", place, "--select", "gradients")
    assert ended.report.recommendation["find_unused_parameters"].value is False


def test_wrapped_all_reduce_is_right(tmp_path: Path) -> None:
    place = target("clean/twins:seeds_of_their_own")
    ended = run(tmp_path / "reports", "--target", place, "--select", "collectives,gradients")
    assert (ended.found(), ended.exit_code) == ({}, 0)
    outcomes = {each.id: each.outcome for each in ended.report.checks}
    assert set(outcomes.values()) == {"pass", "skip"}
    assert {
        outcomes[f"collectives/wrong-{what}"] for what in ("values", "at-times", "at-once")
    } == {"pass"}
