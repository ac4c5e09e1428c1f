"""The corpus under ``ddpcheck watch``: each fault is found at its place, each clean script passes.

A few of them run each time; all of them with pytest -m thorough, or for the scoreboard.
"""

from pathlib import Path
from typing import Any

import pytest
from corpus_cases import expected_of, missing_for, not_yet, scripts, try_clean, try_fault

OFTEN_EACH = 24


def some(files: list[Path]) -> list[Any]:
    """Return all files as parameters, most of them to be run when there is time."""
    return [
        pytest.param(file, id=file.stem, marks=marks_of(number, file))
        for number, file in enumerate(files)
    ]


def marks_of(number: int, file: Path) -> list[pytest.MarkDecorator]:
    """Return what keeps a script for later, and that it is known not to come out well."""
    reason = not_yet(file)
    later = [pytest.mark.thorough] if reason or number % OFTEN_EACH else []
    return [*later, pytest.mark.xfail(strict=True, reason=reason)] if reason else later


def leave_out_without(missing: list[str]) -> None:
    if missing:
        pytest.skip(f"the script needs {', '.join(missing)}: pip install -e '.[launchers]'")


@pytest.mark.parametrize("script", some(scripts("faults")))
def test_a_fault_is_found_at_its_place(script: Path, tmp_path: Path) -> None:
    leave_out_without(missing_for(script))
    seen = try_fault(script, tmp_path)
    assert seen.found, seen.ended.stdout + seen.ended.stderr
    assert seen.located, seen.ended.stdout


@pytest.mark.parametrize("script", some(scripts("clean")))
def test_a_clean_script_is_told_nothing(script: Path, tmp_path: Path) -> None:
    leave_out_without(missing_for(script))
    seen = try_clean(script, tmp_path)
    assert seen.others == ()
    assert seen.ended.exit_code == 0, seen.ended.stdout + seen.ended.stderr


@pytest.mark.parametrize("script", scripts("faults"), ids=lambda script: script.stem)
def test_headers_say_what_is_expected(script: Path) -> None:
    expected = expected_of(script)
    assert expected.line is None or expected.line in script.read_text()
