"""Many ranks, names and bytes in few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

SHOWN_COUNT = 8  # a reader wants no more of anything in a line
UNIT_BYTES = 1024
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def listed(words: Iterable[object], between: str = ", ") -> str:
    """Return the first few words, and how many more there are."""
    told = [str(word) for word in words]
    more = len(told) - SHOWN_COUNT
    return between.join([*told[:SHOWN_COUNT], *([f"and {more} more"] if more > 0 else [])])


def counted(number: int, noun: str) -> str:
    """Return ``1 error`` or ``2 errors``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def known_as(check: str) -> str:
    """Return what a reader calls the place a rank was in: a check by its id, or the script."""
    return "the script" if check == "watch/script" else check


def spans(ranks: Iterable[int]) -> str:
    """Return '0-7, 9' for the ranks 0 to 7 and 9, the first few spans of them."""
    return listed(runs(ranks))


def ranks_told(ranks: Iterable[int]) -> str:
    """Return ``rank 3`` or ``ranks 0-7, 9``, the first few spans of them."""
    told = set(ranks)
    return f"{'rank' if len(told) == 1 else 'ranks'} {spans(told)}"


def as_options(values: Mapping[str, str]) -> str:
    """Return names and values as the command line takes them: cpu_offload,schedule=gpipe."""
    return ",".join(
        name if value == "true" else f"{name}={value}" for name, value in values.items()
    )


def runs(numbers: Iterable[int]) -> list[str]:
    """Return the runs of consecutive numbers, such as '0-7' and '9'."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]


def brief(value: str, length: int = 100) -> str:
    """Return a value as a reader can take it in: its ends, when it is long."""
    half = length // 2
    return value if len(value) <= length else f"{value[:half]}...{value[-half:]}"


def size(count_bytes: float) -> str:
    """Return a size as people read it, such as "64 MiB" or "1.5 GiB"."""
    scale = 0
    while abs(count_bytes) >= UNIT_BYTES and scale < len(UNITS) - 1:
        count_bytes /= UNIT_BYTES
        scale += 1
    return f"{round(count_bytes, 1):g} {UNITS[scale]}"
