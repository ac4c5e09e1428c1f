"""A table as plain text in a given width, cells wrapped where they must be."""

import textwrap
from math import ceil

from tabulate import tabulate

from ddpcheck.render.table import RankTable

GAP = 2
NARROWEST = 4
# A header this narrow still tells one stage from another.
NARROWEST_HEADER = 8


def fitted(table: RankTable, width: int) -> list[str]:
    """Return the lines of ``table``, none wider than ``width`` columns."""
    widths = _widths(table, width)
    headers = [_hyphenated(cell, most) for cell, most in zip(table.headers, widths, strict=True)]
    rows = [
        [_wrapped(cell, most) for cell, most in zip(row, widths, strict=True)] for row in table.rows
    ]
    # As headers they would be padded beyond their width: to tabulate they are rows.
    rules = ["-" * most for most in widths]
    text = tabulate([headers, rules, *rows], tablefmt="plain", disable_numparse=True)
    return [line.rstrip() for line in text.splitlines()]


def _widths(table: RankTable, width: int) -> list[int]:
    bodies = [max(map(len, column)) for column in zip(*table.rows, strict=True)]
    widths = [max(len(header), body) for header, body in zip(table.headers, bodies, strict=True)]
    left = width - GAP * (len(widths) - 1)
    columns = range(len(widths))
    while sum(widths) > left and max(widths) > NARROWEST:
        # A header gives way before what stands below it, the widest column first.
        slack = [c for c in columns if widths[c] > max(bodies[c], NARROWEST_HEADER)]
        widths[max(slack or columns, key=lambda column: widths[column])] -= 1
    return widths


def _wrapped(cell: str, width: int) -> str:
    return "\n".join(textwrap.wrap(cell, width, break_on_hyphens=False))


def _hyphenated(header: str, width: int) -> str:
    if len(header) <= width:
        return header
    # Equal pieces read better than a full one and a stump.
    size = ceil(len(header) / ceil(len(header) / (width - 1)))
    return "-\n".join(header[start : start + size] for start in range(0, len(header), size))
