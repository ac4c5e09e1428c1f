"""How a script reads: its calls and assignments, about in the order in which they run.

A script is read, never run. What it does is guessed from one file: functions are followed where
they are called by name, both branches of an ``if`` are read, and what other files do is unknown.
What is found so is a hint for a human reader, not proof.
"""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import msgspec

from ddpcheck.measures.words import listed

Function = ast.FunctionDef | ast.AsyncFunctionDef
Conditional = ast.If | ast.IfExp


class Place(msgspec.Struct, frozen=True):
    """A line of the script, the piece of source that stands there, and a word on why."""

    line: int
    text: str
    note: str = ""


@dataclass(frozen=True)
class Event:
    """An import, call or assignment, and the conditionals (with the branch taken) around it."""

    node: ast.AST
    guards: tuple[tuple[Conditional, bool], ...] = ()

    def excludes(self, other: Event) -> bool:
        """Return whether the two stand in different branches of one conditional."""
        taken = {id(test): branch for test, branch in self.guards}
        return any(taken.get(id(test), branch) != branch for test, branch in other.guards)

    @property
    def condition(self) -> str:
        """Return the source of all conditions around it."""
        return " and ".join(ast.unparse(test.test) for test, _ in self.guards)

    def place(self, note: str = "") -> Place:
        """Return where it stands in the script."""
        text = " ".join(ast.unparse(self.node).split())
        return Place(getattr(self.node, "lineno", 0), text[:80], note)


def text_of(script: str) -> str:
    """Return the source of a script; '' for what is no Python source or cannot be read."""
    file = Path(script)
    if file.suffix != ".py":
        return ""
    try:
        with tokenize.open(file) as source:
            return source.read()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""


def shown(places: Sequence[Place]) -> str:
    """Return these places in a few words."""
    return listed((f"line {place.line}: {place.text}" for place in places), "; ")


@lru_cache(maxsize=2)  # several checks read the one script of a run
def read(source: str) -> Script:
    """Return the script of this source; an empty one when it does not parse."""
    return Script(source)


class Script:
    """One file, read."""

    def __init__(self, source: str) -> None:
        self.tree = _parsed(source)
        self.names = dict(_imported_names(self.tree))
        self._functions = dict(_unique_functions(self.tree))

    @cached_property
    def paths(self) -> list[list[Event]]:
        """Return what happens from the first line on; once more with each function left over.

        A function that nobody in this file calls may be called by another one, after this
        file was imported.
        """
        walk = _Walk(self)
        main = list(walk.block(self.tree.body, ()))
        left_over = (list(walk.function(each, ())) for each in self._functions.values())
        return [main, *([*main, *events] for events in left_over if events)]

    def name_of(self, expression: ast.AST) -> str:
        """Return the full dotted name of a function or value; '' for what has none."""
        if isinstance(expression, ast.Name):
            return self.names.get(expression.id, expression.id)
        if isinstance(expression, ast.Attribute):
            owner = self.name_of(expression.value)
            return f"{owner}.{expression.attr}" if owner else ""
        return ""

    def called(self, event: Event) -> str:
        """Return the full dotted name of what the event calls; '' when it is no such call."""
        return self.name_of(event.node.func) if isinstance(event.node, ast.Call) else ""

    def target_of(self, call: ast.Call) -> Function | None:
        """Return the function of this file that a call enters."""
        function = call.func
        if isinstance(function, ast.Attribute):
            if _root(function) in self.names:
                return None  # another file's own
            return self._functions.get(f".{function.attr}")
        return self.function_named(function)

    def function_named(self, expression: ast.AST) -> Function | None:
        """Return the function of this file that a bare name means, or its class's __init__."""
        return self._functions.get(expression.id) if isinstance(expression, ast.Name) else None


class _Walk:
    """One pass over a script, which enters each function once."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.entered: set[Function] = set()

    def function(self, function: Function, guards: _Guards) -> Iterator[Event]:
        if function not in self.entered:
            self.entered.add(function)
            yield from self.block(function.body, guards)

    def block(self, nodes: Sequence[ast.AST], guards: _Guards) -> Iterator[Event]:
        for node in nodes:
            yield from self._node(node, guards)

    def _node(self, node: ast.AST, guards: _Guards) -> Iterator[Event]:
        if isinstance(node, Function):
            yield from self.block([*node.decorator_list, *node.args.defaults], guards)
        elif isinstance(node, ast.Lambda):
            return
        elif isinstance(node, Conditional):
            yield from self._node(node.test, guards)
            yield from self.block(_listed(node.body), (*guards, (node, True)))
            yield from self.block(_listed(node.orelse), (*guards, (node, False)))
        else:
            yield from self.block(_children(node), guards)
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Call | ast.Assign | ast.Delete):
                yield Event(node, guards)
            if isinstance(node, ast.Call):
                yield from self._entered_by(node, guards)

    def _entered_by(self, call: ast.Call, guards: _Guards) -> Iterator[Event]:
        # A function that is handed over (to mp.spawn, to a Thread) is as good as called.
        handed = [self._script.function_named(argument) for argument in call.args]
        for function in (self._script.target_of(call), *handed):
            if function is not None:
                yield from self.function(function, guards)


_Guards = tuple[tuple[Conditional, bool], ...]


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])


def _root(expression: ast.AST) -> str:
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def _listed(part: list[ast.stmt] | ast.expr) -> Sequence[ast.AST]:
    return part if isinstance(part, list) else [part]


def _children(node: ast.AST) -> list[ast.AST]:
    # What is assigned is computed before it is stored.
    if isinstance(node, ast.Assign):
        return [node.value, *node.targets]
    return list(ast.iter_child_nodes(node))


def _imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                yield bound, alias.name if alias.asname else bound
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _unique_functions(tree: ast.Module) -> Mapping[str, Function]:
    """Return functions by name, methods by '.name', and a class's __init__ by its name.

    A name that is defined twice means none of them.
    """
    found: list[tuple[str, Function]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, Function)]
            found += [(f".{each.name}", each) for each in methods if each.name != "__init__"]
            found += [(node.name, each) for each in methods if each.name == "__init__"]
        else:
            own = [each for each in ast.iter_child_nodes(node) if isinstance(each, Function)]
            found += [(each.name, each) for each in own]
    times = Counter(name for name, _ in found)
    return {name: each for name, each in found if times[name] == 1}
