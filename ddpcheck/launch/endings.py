"""How a process is asked to end, and how it ended."""

from __future__ import annotations

import signal

# By a user or a scheduler, and often all processes of a group at once.
REQUESTS_TO_END = (signal.SIGINT, signal.SIGTERM)


def ending(code: int) -> str:
    """Return an exit code, or the signal that a negative one stands for, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
