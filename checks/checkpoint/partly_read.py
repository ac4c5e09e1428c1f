"""A distributed checkpoint holds weights of the model that were never read.

Why it matters
    torch.distributed.checkpoint.load reads what it is asked for. A weight that is in the checkpoint
    and not in the state to be loaded, because the model was made smaller or without its biases, is
    passed over without a word, while the opposite is an error: it is load_state_dict(strict=False)
    from one side.

What to do
    Make the model as it was saved: as many layers, the same options. Where the rest is not wanted,
    nothing needs to be done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.digests import short_digest
from ddpcheck.measures.words import listed

KEPT_COUNT = 16
KEPT_KEYS_COUNT = 1000
# An optimizer's part is often left out on purpose, and frozen weights have none.
OPTIMIZERS = re.compile(r"(^|\.)(optim\w*|state|param_groups)(\.|$)")
NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


class Read(msgspec.Struct, frozen=True):
    """What is left of a checkpoint of ``held`` weights after all that a rank read of it.

    ``beside`` are those of ``unread`` whose like was read: another weight of the same layer, or the
    same one, of the same shape, of a layer with another number.
    """

    checkpoint: str
    held: int
    unread: tuple[str, ...]
    beside: tuple[str, ...]
    location: Location | None


class Facts(msgspec.Struct, frozen=True):
    """The distributed checkpoints that a rank read."""

    reads: tuple[Read, ...]


class Observer:
    """Notes what is asked of distributed checkpoints."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._shapes: dict[str, dict[str, tuple[int, ...]]] = {}
        self._asked: dict[str, set[str]] = {}
        self._locations: dict[str, Location | None] = {}

    def on_read(
        self, held: Mapping[str, Any], asked: AbstractSet[str], location: Location | None
    ) -> None:
        """Add what is asked for: the model and its optimizer may be read one after the other."""
        checkpoint = short_digest(repr(sorted(held)))
        if checkpoint not in self._shapes:
            if len(self._shapes) == KEPT_COUNT:
                return
            self._shapes[checkpoint] = _weights(held)
            self._locations[checkpoint] = location
        weights = self._shapes[checkpoint].keys()
        self._asked.setdefault(checkpoint, set()).update(weights & asked)

    def facts(self) -> Facts:
        """Return what was read; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return Facts(tuple(self._read(checkpoint) for checkpoint in self._shapes))

    def _read(self, checkpoint: str) -> Read:
        shapes, asked = self._shapes[checkpoint], self._asked[checkpoint]
        unread = sorted(shapes.keys() - asked)[:KEPT_KEYS_COUNT]
        layers = {_layer(name) for name in asked}
        alike = {(_like(name), shapes[name]) for name in asked}
        beside = [n for n in unread if _layer(n) in layers or (_like(n), shapes[n]) in alike]
        location = self._locations[checkpoint]
        return Read(checkpoint, len(shapes), tuple(unread), tuple(beside), location)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each checkpoint with weights that no rank read, though their like."""
    found: dict[str, dict[int, Read]] = {}
    for rank, own in sorted(facts.items()):
        for read in own.reads:
            found.setdefault(read.checkpoint, {})[rank] = read
    return [_finding(reads, left) for reads in found.values() if (left := _left(reads))]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many checkpoints were read."""
    count = max(len(own.reads) for own in facts.values())
    return f"{count} distributed checkpoints read"


def _left(reads: Mapping[int, Read]) -> list[str]:
    """Return what no rank read of those that some rank had the like of, in order."""
    everywhere = set.intersection(*(set(read.unread) for read in reads.values()))
    return sorted({name for read in reads.values() for name in read.beside} & everywhere)


def _weights(held: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of tensors of floating point numbers, but for an optimizer's."""
    tensors = {name: each for name, each in held.items() if hasattr(each, "properties")}
    return {
        name: tuple(each.size)
        for name, each in tensors.items()
        if each.properties.dtype.is_floating_point and not OPTIMIZERS.search(name)
    }


def _layer(name: str) -> str:
    # What is at the top beside models and optimizers belongs to none of them.
    return name.rpartition(".")[0] or name


def _like(name: str) -> str:
    return NUMBER.sub("*", name)


def _finding(reads: Mapping[int, Read], left: list[str]) -> Finding:
    read = reads[min(reads)]
    return Finding(
        title=f"{len(left)} weights in a checkpoint were never read",
        message=f"of {read.held} weights {len(left)} were passed over that have their like among "
        f"those that were read: {listed(left)}",
        fix="make the model as it was saved: as many layers, with the same options",
        ranks=tuple(reads),
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        location=read.location,
    )
