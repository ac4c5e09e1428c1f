"""What a script does by functions of torch's that have no hook: saving, sharding, averaging, ...

Each is replaced under the names by which scripts find it, and told of after it has returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from os import PathLike, fspath, fstat
from os.path import samestat
from pathlib import Path
from typing import Any

import torch
import torch.distributed.fsdp
import torch.utils.data
from torch import nn
from torch._C import _is_tracing
from torch._C._functorch import is_functorch_wrapped_tensor

from ddpcheck.watch.callsite import line_of_making, users_line
from ddpcheck.watch.optimizers import MADE_AT
from ddpcheck.watch.packed import PACKED
from ddpcheck.watch.replaced import Replaced, Tell
from ddpcheck.watch.samplers import MADE
from ddpcheck.watch.states import is_its_own, is_its_own_sharded, versions_of
from ddpcheck.watch.tensor_hooks import TensorHooks
from ddpcheck.watch.weighings import ranks_that_sum

Emit = Callable[..., None]

LOSS_ARGUMENTS = (
    *("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction"),
)
# Of each gather, the name of what goes into it.
GATHERED = {
    "all_gather": "tensor",
    "all_gather_into_tensor": "input_tensor",
    "all_gather_single": "input_tensor",
}


class Functions:
    """Tells ``saved``, ``loaded``, ``scaled``, ``split``, ``compiled``, ``averaged``, ``gathered``.

    And ``reducing`` and ``weighed``; ``chosen`` of each Subset, ``optimizing`` and ``resumed`` of an optimizer,
    ``captured``, ``reloading``
    and ``returning`` of a module's own state.

    And of what is sharded, ``sharding`` before and ``sharded`` after it. See ``stream``.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._replaced = Replaced()
        self._tensor_hooks = TensorHooks(emit)

    def install(self) -> None:
        """Put them in the places of torch's own."""
        for owner, name, tell in self._places():
            self._replaced.tell_after(owner, name, tell)
        self._replaced.tell_before(nn.Module, "load_state_dict", self._loading)
        self._replaced.put(torch.Tensor, "register_hook", self._tensor_hooks.put_on)
        PACKED.watch(self._replaced)
        MADE.watch(self._replaced)
        self._replaced.tell_after(
            torch.distributed.fsdp.FullyShardedDataParallel, "__init__", self._wrapped
        )
        if hasattr(torch.distributed.fsdp, "fully_shard"):
            self._replaced.tell_after(torch.distributed.fsdp, "fully_shard", self._sharded)
            self._replaced.tell_before(torch.distributed.fsdp, "fully_shard", self._sharding)

    def close(self) -> None:
        """Put torch's own back."""
        self._replaced.close()

    def _places(self) -> Iterator[tuple[Any, str, Tell]]:
        yield torch, "save", self._saved
        yield nn.Module, "load_state_dict", self._loaded
        yield nn.Module, "state_dict", self._captured
        yield torch.utils.data, "random_split", self._split
        yield torch.utils.data.Subset, "__init__", self._chosen
        yield torch.optim.Optimizer, "__init__", self._optimizing
        yield torch.optim.Optimizer, "load_state_dict", self._resumed
        yield torch.amp.GradScaler, "step", self._scaled
        yield torch, "compile", self._compiled
        yield nn.Module, "compile", self._compiled
        yield torch.nn.functional, "cross_entropy", self._averaged
        yield torch.nn.functional, "nll_loss", self._averaged

    def _saved(self, _result: Any, arguments: Any, named: Any) -> None:
        value, file = _first_two(arguments, named, "obj", "f")
        self._emit("saved", _path_of(file), value, users_line())

    def _loaded(self, result: Any, arguments: Any, named: Any) -> None:
        module, given = _first_two(arguments, named, "self", "state_dict")
        missing = tuple(getattr(result, "missing_keys", ()))
        unexpected = tuple(getattr(result, "unexpected_keys", ()))
        if not is_its_own(module, given):
            self._emit("loaded", module, tuple(given), missing, unexpected, users_line())

    def _loading(self, arguments: Any, named: Any) -> None:
        module, given = _first_two(arguments, named, "self", "state_dict")
        if is_its_own(module, given):
            self._emit("reloading", module, tuple(given), versions_of(module), users_line())
        elif is_its_own_sharded(module, given):
            self._emit("returning", module)

    def _captured(self, _result: Any, arguments: Any, named: Any) -> None:
        # A module asks its parts in the same way, with the dictionary that they are to fill.
        if not arguments[1:] and "destination" not in named:
            self._emit("captured", arguments[0], versions_of(arguments[0]))

    def _scaled(self, _result: Any, arguments: Any, _named: Any) -> None:
        if arguments[0].is_enabled():
            self._emit("scaled")

    def _compiled(self, _result: Any, arguments: Any, named: Any) -> None:
        model, _ = _first_two(arguments, named, "model", "fullgraph")
        if isinstance(model, nn.Module):
            self._emit("compiled", model)

    def _split(self, result: Any, arguments: Any, named: Any) -> None:
        dataset, _ = _first_two(arguments, named, "dataset", "lengths")
        self._emit("split", dataset, tuple(result), users_line())

    def _chosen(self, _result: Any, arguments: Any, _named: Any) -> None:
        self._emit("chosen", arguments[0], users_line())

    def _optimizing(self, _result: Any, arguments: Any, _named: Any) -> None:
        MADE_AT[arguments[0]] = line_of_making(arguments[0])
        self._emit("optimizing", arguments[0], MADE_AT[arguments[0]])

    def _resumed(self, _result: Any, arguments: Any, _named: Any) -> None:
        self._emit("resumed", arguments[0], users_line())

    def _sharding(self, arguments: Any, named: Any) -> None:
        for module in _sharded_modules(arguments, named):
            self._emit("sharding", module, users_line())

    def _sharded(self, _result: Any, arguments: Any, named: Any) -> None:
        for module in _sharded_modules(arguments, named):
            self._emit("sharded", module, named.get("mesh"), users_line())

    def _wrapped(self, _result: Any, arguments: Any, named: Any) -> None:
        # The group that shards it is the second argument.
        if not (arguments[2:] or named.get("process_group") or named.get("device_mesh")):
            self._emit("sharded", arguments[0], None, users_line())

    def _averaged(self, result: Any, arguments: Any, named: Any) -> None:
        given = dict(zip(LOSS_ARGUMENTS, arguments, strict=False)) | named
        is_old = given.get("size_average") is not None or given.get("reduce") is not None
        if is_old or given.get("reduction", "mean") != "mean" or not _is_plain(result):
            return
        self._emit(
            "averaged", result, given["target"], given.get("ignore_index", -100), users_line()
        )

    def called(self, name: str, arguments: Any, named: Any) -> None:
        """Hear of a collective that is about to begin.

        Tell of it if it cuts a gradient, or sums values, gradients maybe.
        """
        if name == "all_reduce":
            tensor, _ = _first_two(arguments, named, "tensor", "op")
            ranks = ranks_that_sum(arguments, named)
            is_value = type(tensor) is torch.Tensor and not tensor.requires_grad
            if is_value and tensor.is_floating_point() and ranks:
                self._emit("reducing", tensor, ranks)
        if name not in GATHERED:
            return
        _, tensor = _first_two(arguments, named, "", GATHERED[name])
        if _is_plain(tensor) and tensor.grad_fn is not None:
            self._emit("gathered", tensor, users_line())


def _path_of(file: Any) -> str:
    """Return where a script writes to, by a path or a file that it has opened; '' for elsewhere.

    A name may be a label alone, as of what is written into an archive: it has to lead to the file.
    """
    if isinstance(file, (str, PathLike)):
        return str(fspath(file))
    with suppress(Exception):  # whatever a script's own object may do there
        name: Any = file.name
        if isinstance(name, str) and samestat(fstat(file.fileno()), Path(name).stat()):
            return name
    return ""


def _sharded_modules(arguments: Any, named: Any) -> Sequence[Any]:
    """Return what fully_shard makes one group of: a module, or a list of them."""
    given = arguments[0] if arguments else named.get("module")
    return given if isinstance(given, (list, tuple)) else [given]


def _is_plain(tensor: Any) -> bool:
    """Return whether it is a tensor of its own values that a backward pass may come to."""
    if type(tensor) is not torch.Tensor or not tensor.requires_grad or tensor.is_meta:
        return False
    is_captured = tensor.is_cuda and torch.cuda.is_current_stream_capturing()
    return not (_is_tracing() or is_functorch_wrapped_tensor(tensor) or is_captured)


def _first_two(arguments: Any, named: Any, first: str, second: str) -> tuple[Any, Any]:
    given = dict(zip((first, second), arguments, strict=False)) | named
    return given.get(first), given.get(second)
