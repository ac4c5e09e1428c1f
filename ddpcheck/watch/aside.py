"""Where a script began what torch carries out in a thread beside it."""

from __future__ import annotations

from typing import Any

import torch.distributed.checkpoint as dcp

from ddpcheck.finding import Location
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.replaced import Replaced


class Aside:
    """Remembers the line of the last ``async_save``: its thread has no frame of the script's."""

    def __init__(self) -> None:
        self.line: Location | None = None

    def watch(self, replaced: Replaced) -> None:
        """Hear of each call from now on."""
        if hasattr(dcp, "async_save"):
            replaced.tell_before(dcp, "async_save", self._saving)

    def _saving(self, _arguments: Any, _named: Any) -> None:
        self.line = users_line()


# One for the process: collectives are noted by no object that knows of checkpoints.
ASIDE_FROM = Aside()
