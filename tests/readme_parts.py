"""The parts of the README, and the pages, that are made from the code, and how to make them again.

    python tests/readme_parts.py     rewrites them in README.md and docs/checks

The benchmark's numbers are measured, and stand there as they were printed.
"""

from __future__ import annotations

from pathlib import Path

from ddpcheck.catalogue import catalogue
from ddpcheck.render import render
from ddpcheck.render.manual import page_text, readme_table
from ddpcheck.report import read_report

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = ROOT / "docs/checks"
SAMPLE = ROOT / "reports/samples/gloo-2-ranks/report.json"
EXAMPLE = ROOT / "tests/clean/readme_target.py"


def parts() -> dict[str, str]:
    """Return each generated part by the name of its marker."""
    sample = render(read_report(SAMPLE), "text").rstrip()
    return {
        "sample": f"```text\n{sample}\n```",
        "checks": readme_table(catalogue()).rstrip(),
        "example": f"```python\n{EXAMPLE.read_text().rstrip()}\n```",
    }


def replaced(text: str) -> str:
    """Return the README with its generated parts as they should be."""
    for name, part in parts().items():
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        text = f"{before}{start}{part}\n{end}{after}"
    return text


def pages() -> dict[Path, str]:
    """Return the page of each check by its file."""
    return {PAGES / f"{check.id}.md": page_text(check) for check in catalogue()}


def rewrite() -> None:
    """Write all anew, and remove the pages of checks that are gone."""
    README.write_text(replaced(README.read_text()))
    for file in PAGES.rglob("*.md"):
        file.unlink()
    for file, text in pages().items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    rewrite()
