"""How a process ended, in words."""

from __future__ import annotations

import signal


def ending(code: int) -> str:
    """Return an exit code, or the signal that a negative one stands for, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
