"""The report as one self-contained page: no network and no script is needed to read it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from ddpcheck.errors import ReportError

if TYPE_CHECKING:
    from ddpcheck.report import Report

EXTRA = ("jinja2", "matplotlib")


def render(report: Report, path: str = "") -> str:
    """Return the report as an HTML page, under 1 MB whatever the world size.

    ``path`` is where the report lies; the page names it. Raises ReportError where what the extra
    ``html`` installs is missing.
    """
    require_packages()
    from ddpcheck.render.page.document import document

    return document(report, path)


def require_packages() -> None:
    """Raise ReportError where what the extra ``html`` installs is missing."""
    missing = [package for package in EXTRA if find_spec(package) is None]
    if missing:
        names = " and ".join(missing)
        raise ReportError(f"the format html needs {names}: pip install 'ddpcheck[html]'")
