"""MiniGPT: a small byte-level transformer, written to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

# GPT-2's; with it the first loss is close to ln(vocab), that of a uniform guess.
INITIAL_STD = 0.02
# Stands in a batch where a sequence has ended: no byte, and nothing to predict.
PADDING = -1


@dataclass(frozen=True)
class MiniGPTConfig:
    """The sizes of a MiniGPT; ``width`` must be a multiple of ``heads``."""

    vocab: int = 256
    block: int = 64
    layers: int = 2
    heads: int = 4
    width: int = 128


class Attention(nn.Module):
    """Causal self-attention: every position looks at itself and the ones before it.

    Query, key and value of a head stand beside each other in the rows of ``query_key_value``, so
    that rows cut into equal pieces (tensor parallelism) hold whole heads.
    """

    def __init__(self, config: MiniGPTConfig) -> None:
        super().__init__()
        self.head_width = config.width // config.heads
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, block, width] to the same shape."""
        rows: Tensor = self.query_key_value(x)
        split = rows.unflatten(-1, (-1, 3, self.head_width))  # [batch, block, heads, 3, head width]
        query, key, value = split.permute(3, 0, 2, 1, 4)  # [batch, heads, block, head width]
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return cast(Tensor, self.out(mixed.transpose(1, 2).flatten(2)))


class Layer(nn.Module):
    """Attention, then two linear maps, each added to what came in (pre-norm)."""

    def __init__(self, config: MiniGPTConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.feed_forward_norm = nn.LayerNorm(config.width)
        self.feed_forward = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, block, width] to the same shape."""
        x = x + self.attention(self.attention_norm(x))
        return x + cast(Tensor, self.feed_forward(self.feed_forward_norm(x)))


class MiniGPT(nn.Module):
    """Predicts at every position which byte comes next."""

    def __init__(self, config: MiniGPTConfig) -> None:
        super().__init__()
        self.bytes = nn.Embedding(config.vocab, config.width)
        self.positions = nn.Embedding(config.block, config.width)
        self.layers = nn.Sequential(*(Layer(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        self.apply(_initialize)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens, int64 [batch, block], to logits [batch, block, vocab]."""
        position = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.bytes(tokens) + self.positions(position)
        return cast(Tensor, self.head(self.norm(self.layers(x))))


def next_byte_loss(model: nn.Module, batch: Tensor) -> Tensor:
    """Return the mean cross entropy in nats of the next byte; batch is int64 [batch, block + 1]."""
    return summed_next_byte_loss(model, batch) / predictions(batch)


def summed_next_byte_loss(model: nn.Module, batch: Tensor) -> Tensor:
    """Return the cross entropy of the next byte, summed over all predictions of the batch."""
    inputs, answers = inputs_and_answers(batch)
    return summed_cross_entropy(model(inputs), answers)


def inputs_and_answers(batch: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the model reads and what it is to predict, int64 [batch, block] each.

    ``batch`` is int64 [batch, block + 1]; the answers have PADDING where there is none.
    """
    return batch[:, :-1].clamp(min=0), batch[:, 1:]


def summed_cross_entropy(logits: Tensor, answers: Tensor) -> Tensor:
    """Return the cross entropy in nats of logits [batch, block, vocab], summed over the answers."""
    # A sum over half-precision logs would keep three digits; float64 stays float64.
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return functional.cross_entropy(
        logits.flatten(0, 1), answers.flatten(), reduction="sum", ignore_index=PADDING
    )


def predictions(batch: Tensor) -> Tensor:
    """Return how many bytes of a batch [batch, block + 1] are predicted: all but each first.

    What is PADDING is none. The number, int64 [], is where the batch is: nothing waits for it.
    """
    return (batch[:, 1:] != PADDING).sum()


def count_predictions(batch: Tensor) -> int:
    """Return ``predictions`` as a number; waits for the device that holds the batch."""
    # torch's own sum wakes every thread it has for more than 32768 numbers: dearer than the sum.
    return int(np.count_nonzero(batch[:, 1:].cpu().numpy() != PADDING))


def _initialize(module: nn.Module) -> None:
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=INITIAL_STD)
