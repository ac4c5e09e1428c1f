"""The user's own line in the Python stack of a rank, which is text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ddpcheck.finding import Location
from ddpcheck.measures.testimony import Testimony
from ddpcheck.measures.words import listed

# As traceback and faulthandler write frames; the innermost is the last one of the former.
FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+),? in (\S+)', re.MULTILINE)
# Installed packages, Python's own library and ddpcheck's package; "<frozen runpy>" and its like.
OWN = re.escape(f"{Path(__file__).parents[1]}/")
NOT_THE_USERS = re.compile(rf"^<|/(site|dist)-packages/|/lib/python3[^/]*/|^{OWN}")
# As a Location is written; places without a folder's path from the root are of libraries.
PLACE = re.compile(r"^(/.+):(\d+)(?: in (\S+))?$")
INNERMOST_FIRST = "most recent call first"
# Before each thread in what faulthandler writes, and before the one that a signal came to.
THREAD = re.compile(r"^(?=(?:Thread|Current thread) 0x)", re.MULTILINE)
CURRENT = "Current thread"


def is_users(file: str) -> bool:
    """Return whether a file of code is neither installed, nor Python's, nor ddpcheck's."""
    return not NOT_THE_USERS.search(file)


def current_first(stack: str) -> str:
    """Return what faulthandler wrote with the thread first that a signal came to, if it says so."""
    head, *threads = THREAD.split(stack)
    first = [each for each in threads if each.startswith(CURRENT)]
    rest = [each for each in threads if not each.startswith(CURRENT)]
    joined = "\n".join(each.strip("\n") for each in (*first, *rest))
    return f"{head}{joined}" if first else stack


def users_place(stack: str) -> Location | None:
    """Return the innermost line of the user's in a stack, None where there is none."""
    frames = FRAME.findall(stack)
    if INNERMOST_FIRST in stack:
        frames.reverse()
    own = [frame for frame in frames if is_users(frame[0])]
    return Location(own[-1][0], int(own[-1][1]), own[-1][2]) if own else None


def place_of(told: str) -> Location | None:
    """Return the place that a text such as "/train.py:12 in main" tells, None where it is none."""
    found = PLACE.match(told)
    return Location(found[1], int(found[2]), found[3] or "") if found else None


def place_of_site(site: str, stack: str) -> Location | None:
    """Return the place of a short site, such as "app/train.py:41", in a user's file of this stack."""
    short, _, line = site.rpartition(":")
    files = (file for file, _, _ in FRAME.findall(stack) if is_users(file))
    file = next((each for each in files if short and each.endswith(f"/{short}")), "")
    return Location(file, int(line), "") if file and line.isdecimal() else None


def told_places(told: Mapping[int, Testimony], ranks: Iterable[int]) -> str:
    """Return where these ranks are in the user's code, as the end of a sentence, or ''."""
    places = {rank: users_place(told[rank].stack) for rank in ranks}
    known = [f"rank {rank} is at {place}" for rank, place in places.items() if place is not None]
    return f"; {listed(known)}" if known else ""
