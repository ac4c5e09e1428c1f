"""The agent that started this rank: torchrun's process, which starts its ranks again, or ends them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import psutil

# torchrun sets it for its ranks, and not for itself.
RUN_ID = "TORCHELASTIC_RUN_ID"


def agent_above(environ: Mapping[str, str]) -> psutil.Process | None:
    """Return the agent of a rank with this environment, or None where no agent started it.

    A shell or numactl may stand between them.
    """
    run = environ.get(RUN_ID)
    with suppress(psutil.Error):
        for parent in psutil.Process().parents() if run else ():
            if parent.environ().get(RUN_ID) != run:
                return parent
    return None
