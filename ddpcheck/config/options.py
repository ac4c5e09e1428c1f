"""Options in a settings file: the same names as on the command line, whose defaults they become.

What an option takes is said once, where the parser adds it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Protocol

from ddpcheck.config.file import SettingsFile
from ddpcheck.config.judging import TABLES
from ddpcheck.errors import UsageError
from ddpcheck.option_parser import variable_of

# How the help shows an option that takes several values.
SEVERAL = ",..."


class OptionParser(Protocol):
    """The parser of one command, with its options by name: ``report-dir``."""

    @property
    def options(self) -> Mapping[str, argparse.Action]:
        """Return the options that a settings file may set."""
        ...


def set_defaults(
    file: SettingsFile,
    parsers: Mapping[str, OptionParser],
    command: str,
    environ: Mapping[str, str],
) -> dict[str, str]:
    """Make the file's options the defaults of ``command``'s; return them by name.

    At the top they are for every command that has them; a command's own table outweighs that, and
    a variable both. Raises UsageError, naming file and key, for what no command takes.
    """
    taken: dict[str, str] = {}
    for where, name, value, owners in _options(file, parsers):
        for owner in owners:
            action = parsers[owner].options[name]
            default = _default(where, value, action)
            if owner == command and not environ.get(variable_of(name)):
                action.default = default
                taken[name] = str(default).lower() if isinstance(default, bool) else default
    return taken


def _options(
    file: SettingsFile, parsers: Mapping[str, OptionParser]
) -> Iterator[tuple[str, str, Any, list[str]]]:
    for name, value in file.content.items():
        if name not in parsers and name not in TABLES:
            owners = [each for each in parsers if name in parsers[each].options]
            known = {option for parser in parsers.values() for option in parser.options}
            _require_known(file.key(name), name, {*known, *parsers, *TABLES}, is_known=bool(owners))
            yield file.key(name), name, value, owners
    for command in parsers:
        table = file.content.get(command, {})
        if not isinstance(table, dict):
            raise UsageError(f"{file.key(command)}: must be a table of options of that command")
        for name, value in table.items():
            own = parsers[command].options
            _require_known(file.key(command, name), name, set(own), is_known=name in own)
            yield file.key(command, name), name, value, [command]


def _require_known(where: str, name: str, known: set[str], *, is_known: bool) -> None:
    if not is_known:
        near = get_close_matches(name.replace("_", "-"), sorted(known), n=1)
        hint = f"did you mean {near[0]}?" if near else "'ddpcheck run --help' shows the options"
        raise UsageError(f"{where}: there is no such setting: {hint}")


def _default(where: str, value: object, action: argparse.Action) -> str | bool:
    """Return the value as a default of the option, which is converted as if it were typed."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UsageError(f"{where}: must be true or false")
        return value
    text = _text(where, value, several=SEVERAL in str(action.metavar or ""))
    if action.choices and text not in action.choices:
        raise UsageError(f"{where}: is {text!r}; choose from {', '.join(action.choices)}")
    if callable(action.type):
        try:
            action.type(text)
        except (ValueError, TypeError, argparse.ArgumentTypeError) as error:
            told = f"no {getattr(action.type, '__name__', 'such')} value"
            if isinstance(error, argparse.ArgumentTypeError):
                told = str(error)
            raise UsageError(f"{where}: is {text!r}: {told}") from error
    return text


def _text(where: str, value: object, *, several: bool) -> str:
    if several and isinstance(value, list):
        return ",".join(_text(where, each, several=False) for each in value)
    if several and isinstance(value, dict):
        return ",".join(f"{key}={_text(where, each, several=False)}" for key, each in value.items())
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        kinds = "a text, a number, or a list or table of them" if several else "a text or a number"
        raise UsageError(f"{where}: must be {kinds}")
    return str(value)
