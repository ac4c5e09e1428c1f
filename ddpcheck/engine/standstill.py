"""Whether a script's main thread has stood still for a while, waiting for other ranks."""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType

import torch.distributed as dist

from ddpcheck.engine.stacks import waiting_call
from ddpcheck.watch import flight

# A rank that has not moved for so long, in a collective, tells so; all ranks together hang.
STILL_S = 6.0
# Half of it before, what its GPU waits in is noted: the same must be pending at the end.
NOTED_S = 3.0
LOOK_S = 1.0
FRAMES = 12
# A thread that waits for other ranks takes no processor; one that computes a long backward does.
BUSY_SHARE = 0.3


class Standstill:
    """Looked at by the sentinel, which must be able to run: a call that holds the GIL is no wait.

    ``waits_in`` is what a GPU has not carried out, of any group, once the rank stands.
    """

    def __init__(self, *, on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        self._main = threading.main_thread().ident or 0
        self._trace: object = None
        self._since = self._looked = 0.0
        self._cpu_s = 0.0
        self._noted: int | None = None
        self.stands = False
        self.waits_in = ""

    def look(self, calls: int) -> None:
        """Look where the main thread is; ``calls`` are the collectives that it has called."""
        now = time.monotonic()
        frame = sys._current_frames().get(self._main)
        trace = (calls, *_places(frame))
        if trace != self._trace:
            self._trace, self._since, self._looked = trace, now, now
            self._cpu_s, self._noted, self.stands = time.process_time(), None, False
        elif now - self._looked > LOOK_S and not self.stands:
            self._looked = now
            self.stands = self._has_stood(frame, now - self._since)

    def _has_stood(self, frame: FrameType | None, still_s: float) -> bool:
        if still_s < NOTED_S:
            return False
        if self._on_gpu:
            pending, self.waits_in = flight.pending_call()
            if self._noted is None:
                self._noted = pending
                return False
            return still_s >= STILL_S and pending >= 0 and pending == self._noted
        if not dist.is_initialized():
            return False  # joining may take long, and says by itself when it takes too long
        busy = (time.process_time() - self._cpu_s) / still_s
        return still_s >= STILL_S and busy < BUSY_SHARE and bool(waiting_call(frame))


def _places(frame: FrameType | None) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    while frame is not None and len(places) < FRAMES:
        places.append((id(frame.f_code), frame.f_lasti))
        frame = frame.f_back
    return places
