"""The example of the README is a settings file that is taken as it stands."""

import re
from pathlib import Path
from typing import Any

import pytest

from ddpcheck import cli, commands
from ddpcheck.errors import ExitCode
from ddpcheck.finding import Severity

README = Path(__file__).parents[2] / "README.md"


def example() -> str:
    _, _, after = README.read_text().partition("<!-- settings -->\n```toml\n")
    return after.partition("```\n")[0]


@pytest.mark.parametrize("name", ["ddpcheck.toml", "pyproject.toml"])
def test_the_example_is_taken(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def take(*given: Any) -> ExitCode:
        calls.append(given)
        return ExitCode.OK

    monkeypatch.setattr(commands, "run", take)
    monkeypatch.setattr(commands, "watch", take)
    monkeypatch.chdir(tmp_path)
    text = example()
    if name == "pyproject.toml":
        tables = re.sub(r"^\[+", r"\g<0>tool.ddpcheck.", text, flags=re.MULTILINE)
        text = f"[tool.ddpcheck]\n{tables}"
    (tmp_path / name).write_text(text)
    assert cli.main(["run"]) == 0
    assert cli.main(["watch", "train.py"]) == 0
    run, watch = calls[0][0], calls[1][0]
    assert (run.fail_on, watch.steps) == (Severity.WARNING, 100)
    asked = run.configuration
    assert asked.severity == {"network/lossy-link": Severity.INFO}
    assert (asked.thresholds[0].name, asked.thresholds[0].value) == ("OFFSET_S", 5.0)
    assert asked.suppress[0].hosts == ("debug-*",)
