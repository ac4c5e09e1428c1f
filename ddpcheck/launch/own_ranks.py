"""Whether a script starts its own ranks, as far as its source tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from ddpcheck.measures.script import Script, text_of

# How a process ends that has found it out by itself; ddpcheck's own exit codes are others.
STARTS_OWN = 97
# What is there to start ranks, and nothing else.
LAUNCHERS = frozenset(
    {
        *("accelerate.notebook_launcher", "accelerate.debug_launcher"),
        *("accelerate.launchers.notebook_launcher", "accelerate.launchers.debug_launcher"),
        *("torch.distributed.launcher.api.elastic_launch", "torch.distributed.run.elastic_launch"),
    }
)
# What starts processes, ranks or others: ``Process`` is also a method of contexts.
STARTERS = ("multiprocessing.spawn", "start_processes", "multiprocessing.spawn.spawn", "Process")
INIT = "init_process_group"
OF_LAUNCHERS = ("RANK", "LOCAL_RANK")
# Files of a large package beside the script that are read at most.
MOST_FILES = 100


def starts_own_ranks(words: Sequence[str], *, is_module: bool) -> str:
    """Return FILE:LINE where the script, or a module beside it, starts ranks of its own, or ''.

    A script that reads RANK or LOCAL_RANK, and does not set it, has ranks started by a launcher,
    whatever else it can do; and processes are ranks only where a process group is made.
    """
    root, first = _place(words[0], is_module=is_module)
    read = [_Reading(file) for file in _files(root, first)]
    launched = [place for each in read for place in each.launched]
    started = [place for each in read for place in each.started]
    told = any(each.asks_who for each in read) and not any(each.says_who for each in read)
    makes_group = any(each.makes_group for each in read)
    ranks = [*launched, *(started if makes_group and not told else ())]
    return next(iter(ranks), "")


def _place(name: str, *, is_module: bool) -> tuple[Path, Path]:
    """Return the folder that the script's own modules are imported from, and its file."""
    if not is_module:
        file = Path(name).resolve()
        return file.parent, file
    root = Path.cwd()
    file = root.joinpath(*name.split("."))
    return root, file / "__main__.py" if file.is_dir() else file.with_suffix(".py")


def _files(root: Path, first: Path) -> list[Path]:
    """Return the script and what it imports from its own folder, directly or not."""
    found = [first]
    for file in found:  # grows
        for dotted in filter(None, _imports(root, file)):
            place = root.joinpath(*dotted.split("."))
            for each in (place.with_suffix(".py"), place / "__init__.py"):
                if len(found) < MOST_FILES and each not in found and each.is_file():
                    found.append(each)
    return found


def _imports(root: Path, file: Path) -> Iterator[str]:
    """Yield the dotted names, of modules or not, that a file imports, from the root on."""
    for node in ast.walk(Script(text_of(str(file))).tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(root, file, node.level)
            parts = [*base, *(node.module or "").split(".")]
            owner = ".".join(part for part in parts if part)
            yield owner
            yield from (f"{owner}.{alias.name}" if owner else alias.name for alias in node.names)


def _base(root: Path, file: Path, level: int) -> Sequence[str]:
    if not level or root not in file.parents:
        return ()
    package = file.relative_to(root).parts[:-1]
    return package[: len(package) - level + 1]


class _Reading:
    """What one file does with processes and with the names of ranks."""

    def __init__(self, file: Path) -> None:
        script = Script(text_of(str(file)))
        self.launched: list[str] = []
        self.started: list[str] = []
        self.makes_group = self.asks_who = self.says_who = False
        for node in ast.walk(script.tree):
            if isinstance(node, ast.Call):
                self._note(script.name_of(node.func), f"{file.name}:{node.lineno}")
            elif isinstance(node, ast.Constant):
                self.asks_who |= node.value in OF_LAUNCHERS
            elif isinstance(node, ast.Assign):
                self.says_who |= any(_names_who(target) for target in node.targets)

    def _note(self, name: str, place: str) -> None:
        if name in LAUNCHERS:
            self.launched.append(place)
        self.makes_group |= name.endswith(INIT)
        if any(name == each or name.endswith(f".{each}") for each in STARTERS):
            self.started.append(place)


def _names_who(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Subscript)
        and isinstance(target.slice, ast.Constant)
        and target.slice.value in OF_LAUNCHERS
    )
