"""What is pickled for collectives, and written to or read of distributed checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed import distributed_c10d
from torch.distributed.checkpoint import state_dict_saver
from torch.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)
from torch.distributed.checkpoint.filesystem import _FileSystemWriter

from ddpcheck.watch.aside import ASIDE_FROM
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.objects import LEAST_BYTES, own_operation
from ddpcheck.watch.replaced import Replaced


class Transfers:
    """Tells ``pickled``, ``stored``, ``storing``, ``read`` and ``restored``; see ``stream``.

    The collectives themselves have others around them, who take theirs off in an order of their own:
    here it is what they call that is replaced.
    """

    def __init__(self, emit: Callable[..., None]) -> None:
        self._emit = emit
        self._replaced = Replaced()

    def install(self) -> None:
        """Put them in the places of torch's own, as far as this torch has them."""
        if hasattr(distributed_c10d, "_object_to_tensor"):
            self._replaced.tell_after(distributed_c10d, "_object_to_tensor", self._pickled)
        ASIDE_FROM.watch(self._replaced)
        self._replaced.tell_after(dcp, "load", self._restored)
        self._replaced.tell_after(DefaultLoadPlanner, "create_local_plan", self._planned)
        if hasattr(state_dict_saver, "_stateful_to_state_dict"):
            self._replaced.tell_after(state_dict_saver, "_stateful_to_state_dict", self._stored)
        self._replaced.tell_after(_FileSystemWriter, "set_up_storage_writer", self._storing)

    def close(self) -> None:
        """Put torch's own back."""
        self._replaced.close()

    def _pickled(self, result: Any, arguments: Any, named: Any) -> None:
        size_bytes = result[0].numel()
        operation = own_operation() if size_bytes >= LEAST_BYTES else ""
        if operation:
            given = dict(zip(("obj", "device", "group"), arguments, strict=False)) | named
            ranks = dist.get_world_size(given.get("group"))
            self._emit("pickled", operation, given["obj"], size_bytes, ranks, users_line())

    def _storing(self, _result: Any, arguments: Any, named: Any) -> None:
        leads = arguments[1] if len(arguments) > 1 else named["is_coordinator"]
        self._emit("storing", str(Path(arguments[0].path).absolute()), bool(leads), users_line())

    def _stored(self, value: Any, _arguments: Any, _named: Any) -> None:
        self._emit("stored", value, users_line())

    def _restored(self, _result: Any, arguments: Any, named: Any) -> None:
        self._emit("restored", arguments[0] if arguments else named["state_dict"], users_line())

    def _planned(self, _plan: Any, arguments: Any, _named: Any) -> None:
        planner = arguments[0]
        if not isinstance(planner, _EmptyStateDictLoadPlanner):  # it asks for what there is
            held = planner.metadata.state_dict_metadata
            self._emit("read", held, frozenset(planner.state_dict), users_line())
