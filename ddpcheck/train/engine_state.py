"""What DeepSpeed's engine keeps of a training: read in full, and put back.

ZeRO flattens what it updates, and torch's state_dict functions do not know its optimizer. DeepSpeed
gathers single parameters and their optimizer state in full (``deepspeed.utils.safe_get_full_*``),
under which a checkpoint has them as any other strategy would have written it. All ranks must read,
and put back, together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

# AdamW's means of the gradient and of its square.
MOMENTS = ("exp_avg", "exp_avg_sq")


class EngineState:
    """Model and optimizer of an engine; ``idle_step`` is a step that changes no weight.

    The engine makes its optimizer's state in the first step, and has none to be overwritten before.
    """

    def __init__(self, engine: Any, idle_step: Callable[[], None]) -> None:
        self._engine = engine
        self._idle_step = idle_step

    def read(self) -> dict[str, Any]:
        """Return copies of all tensors, in full, on every rank; see ``checkpoint.held``."""
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        if not self._optimizer.state:
            self._idle_step()
        self._link()
        weights: dict[str, Tensor] = {}
        states: dict[str, dict[str, Tensor]] = {}
        for name, parameter in self._engine.module.named_parameters():
            weights[name] = _copy(safe_get_full_fp32_param(parameter))
            moments = {key: _copy(safe_get_full_optimizer_state(parameter, key)) for key in MOMENTS}
            states[name] = {"step": self._steps[0].clone(), **moments}
        return {"model": weights, "optimizer": states}

    def put_back(self, state: dict[str, Any]) -> None:
        """Overwrite model and optimizer with what ``read`` returned, or what was loaded into it."""
        for name, parameter in self._engine.module.named_parameters():
            self._put_back_one(parameter, state["model"][name], state["optimizer"][name])
        count = next(iter(state["optimizer"].values()))["step"]  # all count the same steps
        for step in self._steps:
            step.copy_(count)

    def _link(self) -> None:
        """Let stages 1 and 2 know where the state of each parameter lies.

        The engine does so after the first group's first step, when other groups have none yet.
        """
        from deepspeed.utils import lazy_init_hp_params_optimizer_state

        optimizer = self._engine.optimizer
        flats = getattr(optimizer, "single_partition_of_fp32_groups", ())
        for group, flat in zip(getattr(optimizer, "bit16_groups", ()), flats, strict=False):
            lazy_init_hp_params_optimizer_state(group, flat, self._optimizer.state)

    def _put_back_one(
        self, parameter: nn.Parameter, weight: Tensor, own: dict[str, Tensor]
    ) -> None:
        put = _put_part if hasattr(parameter, "ds_id") else _put_whole
        put(parameter, weight, {key: own[key] for key in MOMENTS})

    @property
    def _optimizer(self) -> torch.optim.Optimizer:
        return cast("torch.optim.Optimizer", self._engine.optimizer.optimizer)

    @property
    def _steps(self) -> list[Tensor]:
        """Return how many steps each part of the optimizer has counted: the same number."""
        return [each["step"] for each in self._optimizer.state.values()]


def _copy(full: object) -> Tensor:
    return cast("Tensor", full).detach().clone()


def _put_whole(parameter: nn.Parameter, weight: Tensor, moments: dict[str, Tensor]) -> None:
    """Stages 1 and 2: every rank has the weight, and a part of what updates it."""
    from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

    parameter.data.copy_(weight)
    safe_set_full_fp32_param(parameter, weight)
    for key, moment in moments.items():
        safe_set_full_optimizer_state(parameter, moment, key)


def _put_part(parameter: nn.Parameter, weight: Tensor, moments: dict[str, Tensor]) -> None:
    """Stage 3: every rank has a part of the weight, too."""
    from deepspeed.runtime.zero import GatheredParameters
    from deepspeed.utils import safe_set_local_fp32_param, safe_set_local_optimizer_state

    with GatheredParameters([parameter], modifier_rank=0):
        parameter.data.copy_(weight)
    safe_set_local_fp32_param(parameter, _own_part(weight))
    for key, moment in moments.items():
        safe_set_local_optimizer_state(parameter, _own_part(moment), key)


def _own_part(full: Tensor) -> Tensor:
    """Return this rank's part of a tensor, as ZeRO cuts it: all parts alike, the last one padded."""
    flat = full.flatten()
    ranks = torch.distributed.get_world_size()
    length = -(-flat.numel() // ranks)
    start = torch.distributed.get_rank() * length
    own = flat[start : start + length]
    return pad(own, (0, length - own.numel()))
