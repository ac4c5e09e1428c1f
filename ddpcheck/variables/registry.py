"""All variables that are known, and which of them an unknown name was meant to be."""

from collections.abc import Iterable, Iterator
from functools import cache

import msgspec

from ddpcheck.variables import nccl, nccl_unlisted, others, pytorch

# Names that begin so are read by those whom this project is about.
PREFIXES = (
    *("NCCL_", "TORCH_", "TORCHELASTIC_", "PYTORCH_", "GLOO_", "CUDA_", "OMP_", "MKL_"),
    *("MASTER_", "WORLD_", "LOCAL_", "GROUP_"),
)
# Nobody else has a use for these prefixes: a name that nobody is known to read is worth a word.
PREFIXES_OF_OUR_OWN = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "TORCH_DISTRIBUTED_", "TORCHELASTIC_")
# What people write instead of a name, too far from it for the edit distance.
OFTEN_MEANT = {
    "MASTER_ADDRESS": "MASTER_ADDR",
    "MASTER_ADRESS": "MASTER_ADDR",
    "CUDA_DEVICES_VISIBLE": "CUDA_VISIBLE_DEVICES",
    "NCCL_SOCKET_INTERFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_IFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_IFNAME": "NCCL_SOCKET_IFNAME",
    "GLOO_IFNAME": "GLOO_SOCKET_IFNAME",
    "GLOO_SOCKET_IFACE": "GLOO_SOCKET_IFNAME",
    "TORCH_NCCL_DEBUG": "NCCL_DEBUG",
    "TORCH_DISTRIBUTED_DETAIL": "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_CUDA_ALLOC_CONF": "PYTORCH_CUDA_ALLOC_CONF",
}
# Short names have many neighbours: one slip in them, two in longer ones, none in the shortest.
SHORTEST_PREFIX_LENGTH = 5
SHORTEST_NAME_WITH_ONE_SLIP_LENGTH = 9
SHORTEST_NAME_WITH_TWO_SLIPS_LENGTH = 14


class Variable(msgspec.Struct, frozen=True):
    """A known variable: ``reader`` is whose version ``since`` and ``until`` speak of."""

    name: str
    kind: str = "text"
    reader: str = ""
    since: str = ""
    until: str = ""
    meaning: str = ""


def _tables() -> Iterator[Variable]:
    for table, reader in ((nccl.DOCUMENTED, "nccl"), (pytorch.DOCUMENTED, "torch")):
        for name, kind, since, until, meaning in _rows(table, "|"):
            yield Variable(name, kind, reader, since.strip("-"), until.strip("-"), meaning)
    for name, kind, meaning in _rows(others.DOCUMENTED, "|"):
        yield Variable(name, kind, meaning=meaning)
    for name, since, *gone in _rows(nccl_unlisted.UNDOCUMENTED, None):
        yield Variable(name, "text", "nccl", since.strip("-"), *gone)


def _rows(table: str, mark: str | None) -> Iterator[list[str]]:
    for line in table.strip().splitlines():
        yield [part.strip() for part in line.split(mark)]


VARIABLES = {variable.name: variable for variable in _tables()}
NAMES_ALONE = frozenset(f"{pytorch.UNDOCUMENTED} {others.UNDOCUMENTED}".split())


def is_known(name: str) -> bool:
    """Return whether somebody is known to read the variable."""
    return name in VARIABLES or name in NAMES_ALONE or name.startswith(others.PREFIXES_OF_OTHERS)


def unknown_names(names: Iterable[str]) -> list[str]:
    """Return the names that look like ours, or like a slip in one of ours, but are not known."""
    return sorted(name for name in names if _looks_like_ours(name) and not is_known(name))


def near_miss(name: str) -> str:
    """Return the known name that an unknown one was meant to be, or an empty text."""
    if name in OFTEN_MEANT:
        return OFTEN_MEANT[name]
    slips = _slips_allowed(len(name))
    ranked = ((_distance(name, known, slips), known) for known in VARIABLES)
    near = [(slip, known) for slip, known in ranked if 0 < slip <= slips]
    return min(near)[1] if near else ""


def _slips_allowed(length: int) -> int:
    limits = (SHORTEST_NAME_WITH_ONE_SLIP_LENGTH, SHORTEST_NAME_WITH_TWO_SLIPS_LENGTH)
    return sum(length >= limit for limit in limits)


@cache
def _looks_like_ours(name: str) -> bool:
    if name.startswith(PREFIXES):
        return True
    # HCCL_, RCCL_ and CCL_ are no slips but NCCL's kin: the first letter must be right.
    begin = name.partition("_")[0] + "_"
    likely = [p for p in PREFIXES if len(p) >= SHORTEST_PREFIX_LENGTH and p[0] == begin[0]]
    return any(_distance(begin, prefix, 1) == 1 for prefix in likely)


def _distance(one: str, other: str, limit: int) -> int:
    """Return how many letters must go, come, change or swap places; more than ``limit`` is that.

    This is the optimal string alignment distance (Damerau, 1964; each letter edited once).
    """
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, match in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != match))
            if i > 1 and j > 1 and (letter, one[i - 2]) == (other[j - 2], match):
                best = min(best, older[j - 2] + 1)
            row.append(best)
        if min(row) > limit:
            return limit + 1
    return row[-1]
