"""A pytest of its own for suites of tests on ranks, and what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SUITES = Path(__file__).parent / "suites"
SUMMARY = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL) \S+::(test_\w+)", re.MULTILINE)


def run(folder: Path, *words: str) -> str:
    """Run pytest in the folder; returns what it prints."""
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *words]
    environ = {**os.environ, "COLUMNS": "200"}  # pytest cuts its summary's lines
    ended = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    return ended.stdout + ended.stderr


def written(folder: Path, name: str, text: str = "") -> Path:
    """Write a suite in a folder that has no configuration above it but its own."""
    folder.mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    content = text or (SUITES / f"{name}.py").read_text()
    (folder / f"test_{name}.py").write_text(content)
    return folder


def of(test: str, printed: str) -> str:
    """Return what is printed of one test that failed."""
    found = re.search(
        rf"^_+ (ERROR at setup of )?{test} _+$(.*?)(?=^_{{3,}} |^={{3,}} )",
        printed,
        re.MULTILINE | re.DOTALL,
    )
    assert found, printed
    return found[2]


def summary(printed: str) -> dict[str, str]:
    return {test: outcome for outcome, test in SUMMARY.findall(printed)}
