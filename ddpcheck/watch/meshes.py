"""Which ranks hold the same part of a parameter, as its DTensor says, and what it is called."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from ddpcheck.measures.sketch import Sketch
from ddpcheck.target.sketch import sketch_all

Ranks = tuple[int, ...]
Pick = Callable[[torch.Tensor], torch.Tensor | None]


def holders_of(module: nn.Module) -> dict[str, Ranks]:
    """Return the ranks that hold the same part of each DTensor that several hold, by its name.

    Once the script has destroyed its process group no mesh tells any more.
    """
    spread = {name: holders(each) for name, each in module.named_parameters() if _has_mesh(each)}
    return {name: ranks for name, ranks in spread.items() if len(ranks) > 1}


def sketched_by_holders(
    module: nn.Module, held: Mapping[str, Ranks], pick: Pick
) -> dict[Ranks, dict[str, Sketch]]:
    """Return sketches of what is picked of these parameters, by the ranks that hold the same.

    It is the part that is here.
    """
    found: dict[Ranks, list[tuple[str, torch.Tensor | None]]] = {}
    for name, parameter in module.named_parameters():
        if name in held:
            found.setdefault(held[name], []).append((name, local_part(pick(parameter))))
    return {ranks: sketch_all(each) for ranks, each in found.items()}


def holders(tensor: Any) -> Ranks:
    """Return the ranks that hold the same part of a DTensor as this one."""
    mesh = tensor.device_mesh
    own = mesh.get_coordinate() or [0] * mesh.ndim
    alike = [placement.is_replicate() for placement in tensor.placements]
    places = tuple(slice(None) if a else at for a, at in zip(alike, own, strict=True))
    return tuple(sorted(mesh.mesh[places].reshape(-1).tolist()))


def ranks_of_meshes(module: nn.Module) -> list[Ranks]:
    """Return the ranks of each mesh that DTensors among the parameters are spread over."""
    spread: list[Any] = [each for each in module.parameters() if _has_mesh(each)]
    return sorted({tuple(sorted(each.device_mesh.mesh.reshape(-1).tolist())) for each in spread})


def constants_of(module: nn.Module) -> list[str]:
    """Return the plain parameters that have one value all over, as norms and biases have at first."""
    plain = [(n, p.detach()) for n, p in module.named_parameters() if not _has_mesh(p)]
    filled = [(name, each.flatten()) for name, each in plain if each.numel()]
    return [name for name, each in filled if bool((each == each[0]).all())]


def names_of(module: nn.Module) -> dict[str, str]:
    """Return what the script's own models call the parameters of ``module``, as far as is seen.

    To be asked first while the script is at work: a model may be gone once its ``main`` has returned.
    """
    if module not in _NAMES:
        _NAMES[module] = _names_now(module)
    return _NAMES[module]


# All who ask are told the same, and the search through all objects is made once.
_NAMES: WeakKeyDictionary[nn.Module, dict[str, str]] = WeakKeyDictionary()


def _names_now(module: nn.Module) -> dict[str, str]:
    called = {id(parameter): name for name, parameter in module.named_parameters()}
    names: dict[str, str] = {}
    with suppress(Exception):  # whatever a module of the script's may do there: names are a help
        for root in roots(module):
            for name, parameter in root.named_parameters():
                if id(parameter) in called:
                    names.setdefault(called[id(parameter)], name)
    return names


def roots(but: nn.Module) -> list[nn.Module]:
    """Return the modules of this process that are a part of no other, and not ``but``."""
    # A type cannot lie about itself, as an object that stands for another may.
    modules = [each for each in gc.get_objects() if issubclass(type(each), nn.Module)]
    parts = (part for each in modules for part in each.__dict__.get("_modules", {}).values())
    inner = {id(part) for part in parts}
    return [each for each in modules if id(each) not in inner and each is not but]


def _has_mesh(parameter: torch.Tensor) -> bool:
    return hasattr(parameter, "placements")


def local_part(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """Return the part of a DTensor that is here, or the tensor itself: nothing is sent."""
    here: torch.Tensor | None = getattr(tensor, "_local_tensor", tensor)
    return here if here is None or here.numel() else None
