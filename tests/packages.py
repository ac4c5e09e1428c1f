"""Packages that some tests need: without them a test is skipped, and in CI it fails."""

import os
from importlib.util import find_spec

import pytest


def missing(*modules: str) -> list[str]:
    """Return which of these are not installed; importing them would take seconds."""
    return [module for module in modules if find_spec(module) is None]


def require(*modules: str, extra: str = "launchers") -> None:
    """Skip the test where one of these is not installed, which an extra of ddpcheck's has.

    CI installs them all: where that failed, a skip would pass for a test.
    """
    if names := missing(*modules):
        reason = f"no {', '.join(names)}: pip install 'ddpcheck[{extra}]'"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
