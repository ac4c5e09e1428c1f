"""What ``list``, ``explain`` and the README show of the catalogue."""

from types import ModuleType

from ddpcheck.check import Check, Facts, Stage
from ddpcheck.render.manual import explain_text, list_text, readme_table

MANUAL = """\
A host is | its own.

Why it matters
    It is.
What to do
    Nothing."""


def _check(check_id: str, stage: Stage, title: str) -> Check:
    return Check(check_id, stage, title, MANUAL, Facts, ModuleType("fault"))


CHECKS = (
    _check("network/own-host", Stage.NETWORK, "A host is | its own"),
    _check("data/epoch-not-set", Stage.REHEARSAL, "The order never changes"),
)


def test_the_list_shows_id_stage_and_fault() -> None:
    assert list_text(CHECKS) == (
        "id                  stage      finds\n"
        "------------------  ---------  -----------------------\n"
        "network/own-host    network    A host is | its own\n"
        "data/epoch-not-set  rehearsal  The order never changes\n"
    )


def test_the_list_may_be_empty() -> None:
    assert list_text(()).startswith("id")


def test_explain_shows_the_manual() -> None:
    assert explain_text(CHECKS[0]) == f"network/own-host (stage network)\n\n{MANUAL}\n"


def test_the_readme_table_escapes_what_would_end_a_cell() -> None:
    assert readme_table(CHECKS) == (
        "| check | what it finds |\n"
        "| --- | --- |\n"
        "| [`network/own-host`](docs/checks/network/own-host.md) | A host is \\| its own |\n"
        "| [`data/epoch-not-set`](docs/checks/data/epoch-not-set.md) | The order never changes |\n"
    )
