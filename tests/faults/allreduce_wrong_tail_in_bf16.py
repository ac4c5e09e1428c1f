"""A patched all_reduce, meant to log traffic, spoils the last element of bfloat16 on rank 1."""

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

_original = dist.all_reduce
traffic_bytes: list[int] = []


class SpoilingWork:
    def __init__(self, work: Any, tensor: torch.Tensor) -> None:
        self.work, self.tensor = work, tensor

    def wait(self, *args: Any) -> bool:
        done = self.work.wait(*args)
        spoil(self.tensor)
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self.work, name)


def spoil(tensor: torch.Tensor) -> None:
    if tensor.dtype is torch.bfloat16:
        tensor[-1] += 1


def logged_all_reduce(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    traffic_bytes.append(tensor.numel() * tensor.element_size())
    work = _original(tensor, *args, **kwargs)
    if work is not None:
        return SpoilingWork(work, tensor)
    spoil(tensor)
    return None


if int(os.environ.get("RANK", "0")) == 1:
    dist.all_reduce = logged_all_reduce


def factory() -> tuple[Any, ...]:
    model = nn.Linear(4, 1)
    return model, [torch.randn(8, 4)], lambda net, x: net(x).square().mean()
