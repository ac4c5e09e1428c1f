"""Coverage of what tests run on ranks, where pytest-cov measures the rest."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest


def coverage_of(config: pytest.Config) -> dict[str, Any]:
    """Return what coverage in a rank must know to be combined with that of this pytest."""
    plugin: Any = config.pluginmanager.getplugin("_cov")
    controller = getattr(plugin, "cov_controller", None)
    cov = getattr(controller, "cov", None)
    if cov is None:
        return {}
    return {
        "data_file": cov.config.data_file,
        "config_file": cov.config.config_file or False,
        "source": list(cov.config.source or ()) or None,
        "branch": bool(cov.config.branch),
        "data_suffix": True,
    }


@contextmanager
def measured(settings: dict[str, Any]) -> Generator[None]:
    """Measure with these settings, or nothing without any; the data lies beside the others'."""
    if not settings:
        yield
        return
    cov: Any = import_module("coverage").Coverage(**settings)
    cov.start()
    try:
        yield
    finally:
        cov.stop()
        cov.save()
