"""The parts of the README that are made from the code, and how to make them again.

    python tests/readme_parts.py     rewrites them in README.md

The benchmark's numbers are measured, and stand there as they were printed.
"""

from __future__ import annotations

from pathlib import Path

from ddpcheck.catalogue import catalogue
from ddpcheck.render import render
from ddpcheck.render.manual import readme_table
from ddpcheck.report import read_report

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
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


if __name__ == "__main__":
    README.write_text(replaced(README.read_text()))
