"""Where a report goes once it is rendered: to the terminal, into a pipe, or into a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ddpcheck.report import write_in_one_piece

if TYPE_CHECKING:
    from ddpcheck.report import Report

# The formats that are made for a terminal.
COLOURED = ("text", "durations")


def show(finished: Report, fmt: str, path: Path | None, output: str = "") -> None:
    """Print the report, which lies at ``path``, or write it to the file ``output``.

    path: None where the report is not to name its place. Raises ReportError when the file cannot
    be written.
    """
    from ddpcheck.render import render

    whole, near = (str(path), os.path.relpath(path)) if path else ("", "")
    text = render(finished, fmt, path=near if len(near) < len(whole) else whole)
    if output and output != "-":
        write_in_one_piece(Path(output), _utf8(text), "choose another --output")
    else:
        print_text(_in_colour(text) if fmt in COLOURED else text)


def print_text(text: str, stream: TextIO | None = None) -> None:
    """Print text that ends with one newline, whatever characters the stream can take.

    What a terminal has no characters for is shown as escapes. Programs read the others: those
    get UTF-8, since an escape would be something else to them.
    """
    to = stream or sys.stdout
    whole = text if text.endswith("\n") else text + "\n"
    encoding = to.encoding or "utf-8"
    if _can_encode(whole, encoding):
        to.write(whole)
    elif to.isatty() or not hasattr(to, "buffer"):
        to.write(whole.encode(encoding, "backslashreplace").decode(encoding))
    else:
        to.flush()
        to.buffer.write(_utf8(whole))
    to.flush()


def _in_colour(text: str) -> str:
    from ddpcheck.render.colour import painted, wants_colour

    return painted(text) if wants_colour(os.environ, is_terminal=sys.stdout.isatty()) else text


def _can_encode(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
