"""What the fork server imports once, for all ranks.

Imports only: a process that has run tensor operations has threads, and must not fork.
"""

import atexit
import os
from contextlib import suppress
from importlib import import_module

from ddpcheck.catalogue import catalogue
from ddpcheck.engine.pauses import imported_for_good
from ddpcheck.errors import CatalogueError

MODULES = (
    "torch._dynamo",  # DDP and the optimizers import it on first use
    "torch.nn.parallel",
    "ddpcheck.engine.rank",
    "ddpcheck.train.rank",
    *(f"ddpcheck.collectives.{name}" for name in ("in_flight", "objects", "barrier")),
    *(f"ddpcheck.collectives.{name}" for name in ("pairs", "sweep", "turns")),
    "ddpcheck.target.reference",
    "ddpcheck.target.step_split",
)

SERVER_PID = os.getpid()


def leave_at_once() -> None:
    """End the fork server without taking down its modules one by one, which takes half a second.

    Whoever reads the command's output through a pipe would wait for it.
    """
    if os.getpid() == SERVER_PID:
        os._exit(0)


def import_once() -> None:
    """Import all that a rank needs."""
    with imported_for_good():
        for name in MODULES:
            import_module(name)
        with suppress(CatalogueError):  # who needs it tells of it
            catalogue()


import_once()
atexit.register(leave_at_once)
