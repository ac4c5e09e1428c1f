"""Which line of the script made an operation: of one forward pass only, as noting it takes time."""

from __future__ import annotations

import re
from typing import Any

import torch

from ddpcheck.finding import Location
from ddpcheck.watch.callsite import is_users

# As torch keeps it of each operation while it looks for anomalies: traceback.format_stack().
TRACEBACK = "traceback_"
FRAME = re.compile(r'File "(.*)", line (\d+), in (\S+)')


class Origins:
    """Has torch note where operations are made: from ``begin`` to ``end``, the first time only."""

    def __init__(self) -> None:
        self._before: tuple[bool, bool] | None = None
        self._has_begun = False

    def begin(self) -> None:
        """Begin, if it was not done before."""
        if self._has_begun:
            return
        self._has_begun = True
        self._before = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
        if not self._before[0]:
            torch.autograd.anomaly_mode.set_detect_anomaly(mode=True, check_nan=False)

    def end(self) -> None:
        """Leave torch as it was."""
        if self._before is not None:
            torch.autograd.anomaly_mode.set_detect_anomaly(*self._before)
            self._before = None


def origin_of(node: Any) -> Location | None:
    """Return the innermost line of the script's that made an operation, if it was noted."""
    for frame in reversed(node.metadata.get(TRACEBACK, ())):
        told = FRAME.search(frame)
        if told is not None and is_users(told[1]):
            return Location(told[1], int(told[2]), told[3])
    return None
