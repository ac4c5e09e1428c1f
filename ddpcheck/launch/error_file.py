"""torchrun's own summary of a failed job: it shows what each rank leaves in its error file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

# Set by torchrun for each rank; torch/distributed/elastic/multiprocessing/errors says what it
# reads: the message, and as "traceback" what stands in py_callstack.
VARIABLE = "TORCHELASTIC_ERROR_FILE"


def leave_cause(environ: Mapping[str, str], cause: str) -> None:
    """Write the cause, one line, where torchrun looks for it, if torchrun started this process."""
    file = environ.get(VARIABLE)
    if not file or not cause:
        return
    extra = {"py_callstack": cause, "timestamp": str(int(time.time()))}
    told = {"message": {"message": cause, "extraInfo": extra}}
    with suppress(OSError):
        Path(file).write_bytes(msgspec.json.encode(told))
