"""From a report to text: one pure function a format.

A format is a module of this package with a function ``render(report, path="") -> str``,
where ``path`` is where the report lies, for formats that name it; adding one touches no
other file.
"""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from ddpcheck.errors import ReportError
from ddpcheck.report import Report

Renderer = Callable[[Report, str], str]


def render(report: Report, format_name: str, path: str = "") -> str:
    """Return the report, which lies at ``path``, as ``format_name``, ending with a newline.

    Raises ReportError, naming the formats there are, for an unknown one.
    """
    renderer = _renderer(format_name) if format_name in _modules() else None
    if renderer is None:
        raise ReportError(f"no format is called '{format_name}': choose {', '.join(formats())}")
    return renderer(report, path)


def formats() -> tuple[str, ...]:
    """Return the names of all formats, sorted."""
    return tuple(name for name in sorted(_modules()) if _renderer(name))


def _modules() -> frozenset[str]:
    return frozenset(found.name for found in iter_modules(__path__))


def _renderer(name: str) -> Renderer | None:
    return cast("Renderer | None", getattr(import_module(f"{__name__}.{name}"), "render", None))
