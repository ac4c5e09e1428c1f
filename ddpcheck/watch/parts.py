"""Which ranks hold parts of one model, and are no replicas of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpcheck.watch.meshes import ranks_of_meshes

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

Ranks = tuple[int, ...]


class PartsOfOne:
    """A part of an observer: notes ranks that do what only those with parts of one model do.

    They share a backward pass by the script's own collectives, send each other tensors, or have a
    mesh that DTensors are spread over; where FSDP spreads them, its ranks are among these.
    """

    def __init__(self) -> None:
        self.ranks: set[Ranks] = set()

    def on_joint(self, ranks: Ranks) -> None:
        """Note which ranks have parts of one backward pass."""
        self.ranks.add(ranks)

    def on_passed(self, ranks: Ranks) -> None:
        """Note which rank sends tensors to which."""
        self.ranks.add(ranks)

    def on_built(self, live: Trained) -> None:
        """Note the meshes of its parameters."""
        self.ranks.update(ranks_of_meshes(live.module))
