"""CONTRIBUTING.md is followed to the letter, in what a fresh clone would be."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packages import require
from real_ranks import clean_environment

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "CONTRIBUTING.md"
# A fenced block, with the file that it is the content of, where one is named.
# What the template of ddpcheck new becomes is held to what a check is held to.
AS_IT_STANDS = """
files="checks/environment/few_inodes.py tests/checks/environment/test_few_inodes.py"
pytest -q -n 0 tests/checks/environment/test_few_inodes.py tests/test_conformance.py -k 'inodes or agree'
ruff check $files && ruff format --check $files && mypy $files
"""
BLOCK = re.compile(r"(?:^`(\S+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> Iterator[tuple[str, str, str]]:
    """Yield file, language and text of each block of the guide."""
    for found in BLOCK.finditer(GUIDE.read_text()):
        yield found[1] or "", found[2], found[3]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a copy of what git knows, or would know, of this repository."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("only a repository knows its files")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    copy = tmp_path / "clone"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    return copy


def followed(script: str, clone: Path) -> str:
    """Run the block as a reader would, in the environment that the first one makes; return stdout."""
    programs = clone.parent / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("python", "ddpcheck", "pytest", "mypy"):
        module = "" if name == "python" else f"-m {name}"
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        program.chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=clone,
        env={**clean_environment(), "PATH": path, "PYTHONPATH": str(clone)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_ci_makes_the_environment_of_the_guide() -> None:
    _, language, first = next(blocks())
    assert language == "sh"
    install = next(line for line in first.splitlines() if "pip install" in line)
    assert install in (ROOT / ".ci/run").read_text()
    assert first.splitlines()[0] in (ROOT / "README.md").read_text()


@pytest.mark.thorough
def test_a_check_is_added_in_five_minutes(clone: Path) -> None:
    require("ruff", "mypy", extra="lint")
    told: list[str] = []
    is_template_tried = False
    for file, language, text in list(blocks())[1:]:
        if language == "sh":
            told.append(followed(text, clone))
            continue
        assert (clone / file).is_file(), f"ddpcheck new has not written {file}"
        if not is_template_tried:
            assert "Success: no issues found" in followed(AS_IT_STANDS, clone)
            is_template_tried = True
        (clone / file).write_text(text)
    written, worked = told
    assert "wrote checks/environment/few_inodes.py and tests/checks/environment/" in written
    assert "Success: no issues found in 2 source files" in worked
    assert "Look at df -i" in worked
    assert re.search(r"pass   environment/few-inodes .* more files at least", worked)
    page = "docs/checks/environment/few-inodes.md"
    row = f"| [`environment/few-inodes`]({page}) | The file system that a rank works on"
    assert row in (clone / "README.md").read_text()
    assert "Look at df -i" in (clone / page).read_text()
