"""Nothing that ddpcheck itself says is taken for a secret."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ddpcheck
from ddpcheck.secrecy.redaction import redacted_text

ROOT = Path(ddpcheck.__file__).parent.parent
# What it is to find stands there.
APART = ROOT / "ddpcheck/secrecy"


def texts(file: Path) -> Iterator[str]:
    """Yield each text of a module, those with values in them with a word in their place."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "word"
                for part in node.values
            )


FILES = [
    file
    for file in sorted([*ROOT.glob("ddpcheck/**/*.py"), *ROOT.glob("checks/**/*.py")])
    if APART not in file.parents
]


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 400


@pytest.mark.parametrize("package", sorted({file.parent for file in FILES}), ids=lambda p: p.name)
def test_what_it_says_stays_as_it_is(package: Path) -> None:
    told = (text for file in FILES if file.parent == package for text in texts(file))
    hidden = [(text, redacted_text(text)) for text in told if redacted_text(text) != text]
    assert hidden == []
