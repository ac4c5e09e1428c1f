"""What is in a batch, short enough to be compared between ranks."""

from __future__ import annotations

from typing import Any

import torch

from ddpcheck.measures.digests import short_digest
from ddpcheck.target.live import tensors_in

# Of each tensor, so many elements from its start tell one batch from another.
KEPT_ELEMENTS = 4096


def batch_digest(batch: Any) -> str:
    """Return a digest of a batch's tensors, or '' where they tell nothing.

    That is where there are none, where they are on a GPU, which would have to be waited for, and
    where all elements are equal, as in made-up data.
    """
    tensors = [each for each in tensors_in(batch) if each.layout is torch.strided and each.numel()]
    if not tensors or any(each.device.type != "cpu" for each in tensors):
        return ""
    heads = [each.detach().reshape(-1)[:KEPT_ELEMENTS].contiguous() for each in tensors]
    if all(bool((head == head[0]).all()) for head in heads):
        return ""
    told = (
        f"{t.dtype} {tuple(t.shape)}".encode() + _bytes(h)
        for t, h in zip(tensors, heads, strict=True)
    )
    return short_digest(b"|".join(told))


def _bytes(head: torch.Tensor) -> bytes:
    return bytes(head.view(torch.uint8).numpy())
