"""Whether a script accepts the argument with which torch.distributed.launch starts it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ddpcheck.measures.script import Event, Place, read

OLD, NEW = "--local_rank", "--local-rank"


def old_local_rank_arguments(source: str) -> list[Place]:
    """Return where argparse learns ``--local_rank`` when nothing teaches it ``--local-rank``.

    The note is ``environment`` when the script reads LOCAL_RANK too. Scripts for DeepSpeed are
    left alone: its launcher passes the old spelling.
    """
    script = read(source if OLD in source else "")
    if "deepspeed" in {name.partition(".")[0] for name in script.names.values()}:
        return []
    calls = [node for node in ast.walk(script.tree) if isinstance(node, ast.Call)]
    options = {id(call): list(_options(call)) for call in calls}
    if any(NEW in spelled for spelled in options.values()):
        return []
    note = "environment" if _reads_local_rank(script.tree) else ""
    return [Event(call).place(note) for call in calls if OLD in options[id(call)]]


def _options(call: ast.Call) -> Iterator[str]:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
        yield from (str(each.value) for each in call.args if isinstance(each, ast.Constant))


def _reads_local_rank(tree: ast.Module) -> bool:
    """Return whether the script names the variable, other than to set it."""
    stored = {
        id(target.slice)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript)
    }
    return any(
        isinstance(node, ast.Constant) and node.value == "LOCAL_RANK" and id(node) not in stored
        for node in ast.walk(tree)
    )
