"""The parser behind the command line: one line for what is wrong, defaults from variables."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Any, NoReturn

from ddpcheck.errors import ExitCode, UsageError


def variable_of(name: str) -> str:
    """Return the variable that sets an option, such as report-dir."""
    return f"DDPCHECK_{name.replace('-', '_').upper()}"


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, whoever reads it, and however many ranks do.

    ``options`` are those that a settings file may set, by name; ``reads_file``: whether one does.
    ``commands`` are the parsers of those commands that read one, by name.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.options: dict[str, argparse.Action] = {}
        self.reads_file = False
        self.commands: dict[str, Parser] = {}

    def error(self, message: str) -> NoReturn:
        """End with exit code 2 and one line."""
        self.exit(ExitCode.USAGE, f"ddpcheck: {message}; see '{self.prog} --help'\n")


class Adder:
    """Adds options whose defaults come from the environment, to a group of the parser's or none."""

    def __init__(self, parser: Parser, group: argparse._ArgumentGroup | None = None) -> None:
        self._parser = parser
        self._group = group or parser

    def __call__(self, flag: str, *short: str, **settings: Any) -> None:
        """Add an option, and remember it."""
        name = flag.strip("-")
        variable = variable_of(name)
        given = os.environ.get(variable)
        if given and settings.get("action") == "store_true":
            settings["default"] = given.lower() not in {"0", "false", "no", "off"}
        elif given:
            # A text default goes through the option's type, as if it stood on the line.
            settings["default"] = given
        action = self._group.add_argument(flag, *short, **settings)
        self._parser.options[name] = action
        if given and action.choices and given not in action.choices:
            # Told only by the command that has the option: see ``check_variables``.
            action.default = BadVariable(variable, given, tuple(action.choices))


@dataclass(frozen=True)
class BadVariable:
    """The value of a DDPCHECK_ variable that its option does not take."""

    name: str
    value: str
    choices: tuple[str, ...]


def check_variables(options: argparse.Namespace) -> None:
    """Raise UsageError for a variable with a value that its option does not take."""
    for bad in vars(options).values():
        if isinstance(bad, BadVariable):
            choices = ", ".join(bad.choices)
            raise UsageError(f"{bad.name} is '{bad.value}'; choose from {choices}")
