"""The catalogue for readers: the list, one check's manual, the README's table."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tabulate import tabulate

from ddpcheck.check import Check, Stage


def list_text(checks: Iterable[Check]) -> str:
    """Return a plain table of the checks: id, stage, and the fault that each finds."""
    rows = [[check.id, check.stage.value, check.title] for check in checks]
    text = tabulate(rows, ["id", "stage", "finds"], tablefmt="simple", disable_numparse=True)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def explain_text(check: Check, thresholds: Mapping[str, Any] | None = None) -> str:
    """Return one check's id, stage, manual, and the thresholds that a settings file may change."""
    text = f"{check.id} (stage {check.stage.value})\n\n{check.manual.rstrip()}\n"
    if not thresholds:
        return text
    lines = "".join(f"    {name} = {value}\n" for name, value in thresholds.items())
    return f'{text}\nThresholds, in ddpcheck.toml under [thresholds."{check.id}"]\n{lines}'


def page_text(check: Check) -> str:
    """Return one check's manual as a page of markdown."""
    title, _, rest = check.manual.strip().partition("\n")
    sections = [f"# {check.id}", "", title.strip(), ""]
    sections += [_kind(check), ""]
    for line in rest.strip("\n").splitlines():
        is_heading = line.strip() and not line.startswith(" ")
        sections += ["", f"## {line}", ""] if is_heading else [line.removeprefix("    ").rstrip()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(sections)).rstrip() + "\n"


def _kind(check: Check) -> str:
    if check.is_inquest:
        return "Judges how the ranks came through, in `run` and in `watch`."
    if check.is_observer and check.stage is Stage.WATCH:
        return "Looks on at your own script, in `watch`."
    if check.is_observer:
        return (
            "Looks on at a training: at your own script in `watch`, and at the rehearsal of `run`."
        )
    return f"Measures by itself, in the stage {check.stage.value} of `run`."


def readme_table(checks: Iterable[Check]) -> str:
    """Return a markdown table of the checks: id, and the fault that each finds."""
    rows = [
        f"| [`{check.id}`](docs/checks/{check.id}.md) | {_cell(check.title)} |\n"
        for check in checks
    ]
    return "".join(["| check | what it finds |\n", "| --- | --- |\n", *rows])


def _cell(title: str) -> str:
    return " ".join(title.split()).replace("|", "\\|")
