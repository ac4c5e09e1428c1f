"""What is pickled for collectives, read of distributed checkpoints, and about to be sharded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch.distributed as dist
import torch.distributed.fsdp
from torch.distributed import distributed_c10d
from torch.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)

from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.objects import LEAST_BYTES, own_operation
from ddpcheck.watch.replaced import Around, Replaced


class Transfers:
    """Tells ``pickled``, ``read`` and ``sharding``; see ``stream``.

    The collectives themselves have others around them, who take theirs off in an order of their own:
    here it is what they call that is replaced.
    """

    def __init__(self, emit: Callable[..., None]) -> None:
        self._emit = emit
        self._replaced = Replaced()

    def install(self) -> None:
        """Put them in the places of torch's own, as far as this torch has them."""
        places: tuple[tuple[Any, str, Around], ...] = (
            (distributed_c10d, "_object_to_tensor", self._pickling),
            (DefaultLoadPlanner, "create_local_plan", self._planning),
            (torch.distributed.fsdp, "fully_shard", self._sharding),
        )
        for owner, name, around in places:
            if hasattr(owner, name):
                self._replaced.put(owner, name, around)

    def close(self) -> None:
        """Put torch's own back."""
        self._replaced.close()

    def _pickling(self, original: Around, *arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        with suppress(Exception):
            self._tell_of_pickled(result[0].numel(), *arguments, **named)
        return result

    def _tell_of_pickled(self, size_bytes: int, obj: Any, _device: Any, group: Any = None) -> None:
        operation = own_operation() if size_bytes >= LEAST_BYTES else ""
        if operation:
            ranks = dist.get_world_size(group)
            self._emit("pickled", operation, obj, size_bytes, ranks, users_line())

    def _planning(self, original: Around, planner: Any) -> Any:
        plan = original(planner)
        with suppress(Exception):
            if not isinstance(planner, _EmptyStateDictLoadPlanner):  # it asks for what there is
                held = planner.metadata.state_dict_metadata
                self._emit("read", held, frozenset(planner.state_dict), users_line())
        return plan

    def _sharding(self, original: Around, *arguments: Any, **named: Any) -> Any:
        with suppress(Exception):
            module = arguments[0] if arguments else named["module"]
            self._emit("sharding", module, users_line())
        return original(*arguments, **named)
