"""Functions that ddpcheck_watch runs: found again by ranks, in packages and under decorators."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpcheck.report import Report
from ddpcheck.testing import commands
from ddpcheck.testing.called import __file__ as called_file
from ddpcheck.testing.commands import CALLED, Watching

TRAINING = """
from .network import NAME

def train():
    print(NAME, __name__)
"""


def call(file: Path) -> str:
    """Have the file's train() called in a process of its own; return what it prints."""
    environ = {**os.environ, "PYTHONPATH": str(Path(called_file).parents[2])}
    command = [sys.executable, "-m", CALLED, str(file), "train"]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr


def test_a_module_of_a_package_has_its_relative_imports(tmp_path: Path) -> None:
    package = tmp_path / "outer" / "inner"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "network.py").write_text("NAME = 'net'")
    (package / "training.py").write_text(TRAINING)
    assert call(package / "training.py") == "net outer.inner.training\n"


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    file = tmp_path / "my-training.py"
    file.write_text("def train(): print('trained')")
    assert call(file) == "trained\n"


def train() -> None: ...


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Path]]:
    """Return the commands that are asked for; none is run."""
    found: list[tuple[list[str], Path]] = []

    def report_of(words: list[str], folder: Path) -> Report:
        found.append((words, folder))
        pytest.fail("not run", pytrace=False)

    monkeypatch.setattr(commands, "_report_of", report_of)
    return found


def watch(function: Callable[[], object], folder: Path, fail_on: str = "warning") -> None:
    with pytest.raises((pytest.fail.Exception, pytest.UsageError), match="not run"):
        Watching(folder)(function, fail_on=fail_on)


def test_a_report_of_an_earlier_call_is_out_of_the_way(
    asked: list[tuple[list[str], Path]], tmp_path: Path
) -> None:
    watch(train, tmp_path)
    watch(train, tmp_path)
    assert asked[0][1] != asked[1][1]


def test_a_decorated_function_is_looked_for_where_it_was_written(
    asked: list[tuple[list[str], Path]], tmp_path: Path
) -> None:
    wrapper: dict[str, Callable[[], object]] = {}
    exec(compile("def wrapper(): ...", "/lib/decorators.py", "exec"), wrapper)
    watch(functools.wraps(train)(wrapper["wrapper"]), tmp_path)
    assert asked[0][0][-2:] == [__file__, "train"]


def test_an_unknown_severity_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(pytest.UsageError, match="fail_on='warn': choose from error, warning, info"):
        Watching(tmp_path)(train, fail_on="warn")


def test_modules_are_found_as_in_the_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    own = commands.own_paths()
    assert own[0] == str(tmp_path)
    assert not any("site-packages" in path for path in own)
