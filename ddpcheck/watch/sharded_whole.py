"""What a module holds when it is sharded, and whether its part here still has it later."""

from __future__ import annotations

import math
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


def not_sharded_yet(module: nn.Module) -> list[torch.Tensor]:
    """Return the parameters of a module but those of parts that FSDP has sharded before.

    DTensors of a tensor-parallel axis are among them: of those each rank has a part to be sharded.
    """
    inner = (part for part in module.modules() if part is not module and _is_sharded(part))
    sharded = {id(each) for part in inner for each in part.parameters()}
    return [each for each in module.parameters() if id(each) not in sharded]


def _is_sharded(module: nn.Module) -> bool:
    return hasattr(module, "_get_fsdp_state")


class ShardedWhole:
    """The beginnings of a module's parameters; ``ranks`` are those that it was sharded among.

    Of a DTensor it is the part that is here.
    """

    def __init__(
        self, module: nn.Module, whole: Sequence[torch.Tensor], location: Location | None
    ) -> None:
        self.module = ref(module)
        self.location = location
        self.ranks: tuple[int, ...] = ()
        names = {id(each): name for name, each in module.named_parameters()}
        here = {names[id(each)]: part for each in whole if (part := local_part(each)) is not None}
        self._kept = Keepsake([each.detach() for each in here.values()])
        self._heads = {name: _head(each) for name, each in here.items()}
        self._axes = {names[id(each)]: _axes_of(each) for each in whole}
        self._is_another = False

    def look_again(self) -> None:
        """Look whether all parts that begin where the whole did have other values by now."""
        module = self.module()
        now = dict(module.named_parameters()) if module is not None else {}
        pairs = [
            (head, part)
            for name, head in self._heads.items()
            if name in now and (part := self._first_part(name, now[name])) is not None
        ]
        self._is_another = any(_differ(*pair) for pair in pairs)

    def _first_part(self, name: str, now: torch.Tensor) -> torch.Tensor | None:
        return _first_part(now, self._axes[name], self.ranks)

    def digest(self) -> str:
        """Return a digest, '' where nothing is known, or it was made anew later; waits for the GPU."""
        return "" if self._is_another else self._kept.digest()


def _differ(head: torch.Tensor, part: torch.Tensor) -> bool:
    """Return whether one begins otherwise than the other; what was on the meta device had no values.

    For a pass FSDP may have a part in fewer bits.
    """
    if head.is_meta or part.is_meta:
        return not part.is_meta
    count = min(len(head), len(part))
    return not torch.equal(head[:count].to(part), part[:count])


def _head(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().reshape(-1)[:KEPT_ELEMENTS].clone()


def _axes_of(tensor: torch.Tensor) -> int:
    mesh = getattr(tensor, "device_mesh", None)
    return 0 if mesh is None else int(mesh.ndim)


def _first_part(tensor: torch.Tensor, inner_axes: int, ranks: Sequence[int]) -> torch.Tensor | None:
    """Return the beginning of what is here, where it is of the first rank's part.

    The last axes of its mesh are those that it was spread over before. After a forward pass FSDP may
    hold the parameter whole, as it was gathered: of that the first rank's rows are the first.
    """
    here = local_part(tensor)
    if here is None or not ranks:
        return None if here is None else _head(here)
    mesh = getattr(tensor, "device_mesh", None)
    if mesh is not None and mesh.ndim > inner_axes:
        place = mesh.get_coordinate() or [1]
        return None if any(place[: mesh.ndim - inner_axes]) else _head(here)
    if torch.distributed.get_rank() != ranks[0]:
        return None
    return _head(here[: math.ceil(len(here) / len(ranks))] if here.ndim else here)
