"""Sets of ranks and lists of names, in few words."""

from collections.abc import Iterable, Sequence

SHOWN_COUNT = 8  # a reader wants no more of anything in a line


def spans(ranks: Iterable[int]) -> str:
    """Return '0-7, 9' for the ranks 0 to 7 and 9, the first few spans of them."""
    found: list[list[int]] = []
    for rank in sorted(ranks):
        if found and found[-1][1] == rank - 1:
            found[-1][1] = rank
        else:
            found.append([rank, rank])
    return listed([str(a) if a == b else f"{a}-{b}" for a, b in found])


def listed(words: Sequence[str], between: str = ", ") -> str:
    """Return the first few words, and how many more there are."""
    more = len(words) - SHOWN_COUNT
    return between.join(words[:SHOWN_COUNT]) + (f"{between}and {more} more" if more > 0 else "")


def brief(value: str, length: int = 100) -> str:
    """Return a value as a reader can take it in: its ends, when it is long."""
    half = length // 2
    return value if len(value) <= length else f"{value[:half]}...{value[-half:]}"
