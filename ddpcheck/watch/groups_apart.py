"""What a rank trains, as it starts and as it ends, to compare with ranks of other groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpcheck.target.sketch import sketch_all
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.meshes import constants_of, local_part, names_of, ranks_of_meshes
from ddpcheck.watch.replicas import Norms

if TYPE_CHECKING:
    import torch

    from ddpcheck.target.live import Trained


class StartAndEnd:
    """The parameters that were random at first, or the parts of them that are here."""

    def __init__(self, live: Trained) -> None:
        module = live.module
        constants, names = set(constants_of(module)), names_of(module)
        self.location = users_line()
        self._meshes = ranks_of_meshes(module)
        self._parameters: dict[str, torch.Tensor] = {
            names.get(name, name): here.detach()
            for name, parameter in module.named_parameters()
            if name not in constants and (here := local_part(parameter)) is not None
        }
        self._before = self._digests()
        self._norms = Norms(list(self._parameters.values()))
        self._steps = 0

    def is_split_beyond(self, group: tuple[int, ...]) -> bool:
        """Return whether DTensors are spread over ranks that are not in this group."""
        return any(set(mesh) - set(group) for mesh in self._meshes)

    def note(self) -> None:
        """Keep what tells whether ranks are alike after a step."""
        self._steps += 1
        self._norms.note()

    def told(self) -> tuple[dict[str, str], dict[str, str], int, tuple[str, ...]]:
        """Return digests before and after, the number of steps, and a digest of each moment."""
        return self._before, self._digests(), self._steps, self._norms.digests()

    def _digests(self) -> dict[str, str]:
        return {name: own.digest for name, own in sketch_all(self._parameters.items()).items()}
