"""What Slurm's compressed texts say: lists of hosts, tasks a node, and which step this is.

Source: Slurm's manual, scontrol(1) "show hostnames" and srun(1), "OUTPUT ENVIRONMENT VARIABLES".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# Slurm itself refuses longer ranges (MAX_RANGE in its hostlist.h), so a longer one is a mistake.
MOST_COUNT = 64 * 1024
_ENTRY = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")
# Steps that no srun of the user made: batch script, interactive shell, extern.
# Source: slurm.h, SLURM_INTERACTIVE_STEP 0xfffffffa to SLURM_PENDING_STEP 0xfffffffd.
FIRST_SPECIAL_STEP = 0xFFFFFFFA


def hosts_of(hostlist: str) -> list[str]:
    """Return the hosts of a list such as ``node[1-3,07],gpu-[01-02]-a``, in its order.

    Empty when the text is no such list, or one of more hosts than Slurm allows.
    """
    text = hostlist.strip()
    entries = _ENTRY.findall(text)
    if not text or ",".join(entries) != text:
        return []
    hosts: list[str] = []
    for entry in entries:
        expanded = _expanded(entry)
        if not expanded or len(hosts) + len(expanded) > MOST_COUNT:
            return []
        hosts += expanded
    return hosts


def tasks_on_nodes(text: str) -> list[int]:
    """Return the tasks of each node for a text such as ``2(x3),1``; empty when it is none."""
    counts: list[int] = []
    for part in text.split(","):
        found = _TASKS.fullmatch(part.strip())
        nodes = int(found[2] or 1) if found else 0
        if found is None or len(counts) + nodes > MOST_COUNT:
            return []
        counts += [int(found[1])] * nodes
    return counts


def is_task_of_srun(environ: Mapping[str, str]) -> bool:
    """Return whether srun started this process, or one above it, as a task of a step.

    A batch script has SLURM_PROCID too, and the variables of its allocation, but is no task.
    """
    step = environ.get("SLURM_STEP_ID", environ.get("SLURM_STEPID", ""))
    started = step.isdecimal() and int(step) < FIRST_SPECIAL_STEP
    return started and "SLURM_PROCID" in environ


def _expanded(entry: str) -> list[str]:
    """Return the hosts of one entry; with several brackets the last one counts fastest."""
    hosts = [""]
    for part in re.findall(r"\[[^\]]*\]|[^\[\]]+", entry):
        choices = list(_choices(part[1:-1])) if part.startswith("[") else [part]
        if not choices or len(hosts) * len(choices) > MOST_COUNT:
            return []
        hosts = [host + choice for host in hosts for choice in choices]
    return hosts


def _choices(ranges: str) -> Iterator[str]:
    """Yield the numbers of ``1-3,07`` as texts, as wide as the range's first; none if malformed."""
    parts = [_RANGE.fullmatch(part.strip()) for part in ranges.split(",")]
    found = [each for each in parts if each is not None]
    spans = [(each[1], int(each[1]), int(each[2] or each[1])) for each in found]
    if len(found) < len(parts) or any(not 0 <= last - low < MOST_COUNT for _, low, last in spans):
        return
    for first, low, last in spans:
        width = len(first) if first.startswith("0") else 0
        yield from (str(number).zfill(width) for number in range(low, last + 1))
