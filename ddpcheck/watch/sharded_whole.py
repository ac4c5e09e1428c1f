"""What a module holds when it is sharded, and whether its part here still has it later."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

import torch
from torch import nn

from ddpcheck.finding import Location
from ddpcheck.watch.batches import Keepsake
from ddpcheck.watch.meshes import local_part

# A model of more modules is looked at as far as that.
KEPT_MODULES = 64
# So many first elements tell whether a parameter was made anew.
KEPT_ELEMENTS = 64


class ShardedWhole:
    """The beginnings of a module's parameters; ``ranks`` are those that it was sharded among."""

    def __init__(
        self, module: nn.Module, whole: Sequence[torch.Tensor], location: Location | None
    ) -> None:
        self.module = ref(module)
        self.location = location
        self.ranks: tuple[int, ...] = ()
        self._kept = Keepsake([each.detach() for each in whole])
        names = {id(each): name for name, each in module.named_parameters()}
        self._heads = {names[id(each)]: _head(each) for each in whole}
        self._is_another = False

    def look_again(self) -> None:
        """Look whether all parts that begin where the whole did have other values by now."""
        module = self.module()
        now = dict(module.named_parameters()) if module is not None else {}
        pairs = [
            (head, part)
            for name, head in self._heads.items()
            if name in now and (part := _first_part(now[name])) is not None
        ]
        self._is_another = any(_differ(*pair) for pair in pairs)

    def digest(self) -> str:
        """Return a digest, '' where nothing is known, or it was made anew later; waits for the GPU."""
        return "" if self._is_another else self._kept.digest()


def _differ(head: torch.Tensor, part: torch.Tensor) -> bool:
    """Return whether one begins otherwise than the other; what was on the meta device had no values."""
    if head.is_meta or part.is_meta:
        return not part.is_meta
    count = min(len(head), len(part))
    return not torch.equal(head[:count].double().cpu(), part[:count].double().cpu())


def _head(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().reshape(-1)[:KEPT_ELEMENTS].clone()


def _first_part(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the part that is here, if it is a whole one or the first of a sharded one."""
    mesh = getattr(tensor, "device_mesh", None)
    if mesh is not None and any(mesh.get_coordinate() or [1]):
        return None
    here = local_part(tensor)
    return None if here is None else _head(here)
