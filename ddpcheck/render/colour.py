"""Colour for the text format on a terminal; whoever prints it decides whether there is any."""

import re
from collections.abc import Mapping

RED, GREEN, YELLOW, CYAN, FAINT = "31", "32", "33", "36", "2"
BOLD = "1;"
COLOURS = {
    "error": RED,
    "fail": RED,
    "lost": RED,
    "stalled": RED,
    "warning": YELLOW,
    "info": CYAN,
    "pass": GREEN,
    "skip": FAINT,
    "verdict: PASS": BOLD + GREEN,
    "verdict: WARN": BOLD + YELLOW,
    "verdict: FAIL": BOLD + RED,
    "verdict: INCOMPLETE": BOLD + RED,
}
# The words stand at the start of a line, or where the lines on checks have their outcome.
WORDS = re.compile(rf"^( {{2}})?({'|'.join(COLOURS)})(?=[ ,])", re.MULTILINE)


def wants_colour(environ: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return whether text that goes to this terminal, or to no terminal, is to be coloured.

    NO_COLOR (no-color.org) forbids it and FORCE_COLOR asks for it, both unless empty, the first
    wins; without them it is for terminals that are not dumb.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return is_terminal and environ.get("TERM") != "dumb"


def painted(text: str) -> str:
    """Return a report as text with its verdict, outcomes and severities in colour."""
    return WORDS.sub(lambda m: f"{m[1] or ''}\x1b[{COLOURS[m[2]]}m{m[2]}\x1b[0m", text)
