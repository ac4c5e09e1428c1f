"""The catalogue for readers: the list, one check's manual, the README's table."""

from collections.abc import Iterable

from tabulate import tabulate

from ddpcheck.check import Check


def list_text(checks: Iterable[Check]) -> str:
    """Return a plain table of the checks: id, stage, and the fault that each finds."""
    rows = [[check.id, check.stage.value, check.title] for check in checks]
    text = tabulate(rows, ["id", "stage", "finds"], tablefmt="simple", disable_numparse=True)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def explain_text(check: Check) -> str:
    """Return one check's id, stage and manual."""
    return f"{check.id} (stage {check.stage.value})\n\n{check.manual.rstrip()}\n"


def readme_table(checks: Iterable[Check]) -> str:
    """Return a markdown table of the checks: id, and the fault that each finds."""
    rows = [f"| `{check.id}` | {_cell(check.title)} |\n" for check in checks]
    return "".join(["| check | what it finds |\n", "| --- | --- |\n", *rows])


def _cell(title: str) -> str:
    return " ".join(title.split()).replace("|", "\\|")
