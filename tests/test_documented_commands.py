"""Every command that the documentation names is one: its options are known, and what reads runs."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from readme_parts import README, ROOT, SAMPLE

from ddpcheck.cli import main
from ddpcheck.command_options import build_parser

DOCUMENTS = (
    *(README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs/examples").iterdir())),
    *(
        *sorted((ROOT / "docs/decisions").glob("*.md")),
        *sorted((ROOT / "docs/checks").rglob("*.md")),
    ),
)
COMMANDS = ("run", "watch", "train", "report", "diff", "list", "explain", "new")
# In a block of code, or between backticks; not in a sentence.
SHOWN = re.compile(r"```(?:bash|sh)\n(.*?)```|`([^`\n]+)`", re.DOTALL)
OURS = re.compile(rf"\bddpcheck ((?:{'|'.join(COMMANDS)})\b[^\n#|&;()]*)")


def documented() -> list[tuple[str, str]]:
    """Return each command with the file that names it, once a file."""
    return list(dict.fromkeys(pair for file in DOCUMENTS for pair in _commands(file)))


def _commands(file: Path) -> Iterator[tuple[str, str]]:
    text = file.read_text().replace("\\\n", " ")
    text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE) if file.suffix != ".md" else text
    shown = text if file.suffix != ".md" else "\n".join(a or b for a, b in SHOWN.findall(text))
    for words in OURS.findall(shown):
        # "..." stands for more, "$NAME" and "{" for what the shell or a template puts there.
        if not re.search(r"\.\.\.|[<>{$]|[A-Z]{3,}", words):
            yield file.name, words.strip(" `'\",")


@pytest.mark.parametrize(("file", "words"), documented())
def test_its_options_are_known(file: str, words: str) -> None:
    given = shlex.split(words)
    if given in (["diff"], ["explain"], ["new"], ["watch"]):
        return  # its name alone: what it takes is told where it is shown
    assert build_parser().parse_args(given), file


def reading() -> list[str]:
    """Return the README's commands that read what is there."""
    told = {words for file, words in documented() if file == README.name}
    return sorted(each for each in told if each.split()[0] in {"report", "diff", "list", "explain"})


@pytest.mark.parametrize("words", [each for each in reading() if len(each.split()) > 1])
def test_what_reads_runs(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("latest", "last-week", "one-gpu"):
        (tmp_path / "reports" / name).mkdir(parents=True)
        shutil.copy(SAMPLE, tmp_path / "reports" / name)
    assert main(shlex.split(words.replace("/var/lib/node_exporter/", ""))) == 0
