"""From a report to text: one pure function a format.

A format is a module of ``ddpcheck.render.formats`` with a function
``render(report, path="") -> str``, where ``path`` is where the report lies, for formats that name
it; adding one touches no other file. One that needs more than ddpcheck does also has
``require_packages()``, which raises ReportError where that is missing. ``bad_hosts`` is called
``bad-hosts`` on the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, cast

from ddpcheck.errors import ReportError
from ddpcheck.render import formats as package

if TYPE_CHECKING:
    from ddpcheck.report import Report

Renderer: TypeAlias = "Callable[[Report, str], str]"


def render(report: Report, format_name: str, path: str = "") -> str:
    """Return the report, which lies at ``path``, as ``format_name``, ending with a newline.

    Raises ReportError, naming the formats there are, for an unknown one.
    """
    return cast("Renderer", _module(format_name).render)(report, path)


def require(format_name: str) -> None:
    """Raise ReportError where the format needs what is not installed, or is unknown.

    So a run learns of it before it begins, and not when it has ended.
    """
    require_packages = getattr(_module(format_name), "require_packages", None)
    if require_packages is not None:
        require_packages()


def formats() -> tuple[str, ...]:
    """Return the names of all formats, sorted; none of them is imported for it."""
    return tuple(sorted(each.name.replace("_", "-") for each in iter_modules(package.__path__)))


def _module(format_name: str) -> ModuleType:
    if format_name not in formats():
        raise ReportError(f"no format is called '{format_name}': choose {', '.join(formats())}")
    return import_module(f"{package.__name__}.{format_name.replace('-', '_')}")
