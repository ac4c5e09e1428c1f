"""What is in a batch, short enough to be kept and compared between ranks."""

from __future__ import annotations

from typing import Any

import torch

from ddpcheck.measures.digests import short_digest
from ddpcheck.target.live import tensors_in

# Of each tensor, so many elements from its start tell one batch from another.
KEPT_ELEMENTS = 4096


class Keepsake:
    """A copy of the first elements of a batch's tensors, where they are: nothing waits for a GPU."""

    def __init__(self, batch: Any) -> None:
        plain = (each for each in tensors_in(batch) if each.layout is torch.strided)
        tensors = [each.detach() for each in plain if each.numel() and not each.is_meta]
        self._shapes = [f"{each.dtype} {tuple(each.shape)}" for each in tensors]
        self._heads = [each.reshape(-1)[:KEPT_ELEMENTS].clone() for each in tensors]

    def digest(self) -> str:
        """Return a digest, or '' where the tensors tell nothing: all made of one value, say."""
        heads = [head.cpu() for head in self._heads]
        if all(bool((head == head[0]).all()) for head in heads):
            return ""
        told = zip(self._shapes, heads, strict=True)
        return short_digest(b"|".join(shape.encode() + _bytes(head) for shape, head in told))


def _bytes(head: torch.Tensor) -> bytes:
    return bytes(head.view(torch.uint8).numpy())
