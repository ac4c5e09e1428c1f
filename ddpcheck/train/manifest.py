"""What a checkpoint says of itself: of which training it is, where that stood, and its files."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

FORMAT_VERSION = 1


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the data: the epoch, and how many samples of it all ranks together have had."""

    epoch: int = 0
    samples: int = 0


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a training this training, and no other.

    model: its class and sizes. text: the fingerprint of the data. steps: of the whole training,
    which the schedule of learning rates follows.
    """

    model: str
    text: str
    global_batch: int
    steps: int


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What a training has behind it.

    loss: the points of its curve, (step, mean loss over all ranks in nats). timed_tokens: tokens of
    all ranks in the ``timed_s`` seconds that count for its speed. resumed_at: the steps at which it
    had been stopped, and went on.
    """

    step: int = 0
    loss: tuple[tuple[int, float], ...] = ()
    timed_tokens: int = 0
    timed_s: float = 0.0
    resumed_at: tuple[int, ...] = ()

    @property
    def tokens_per_s(self) -> float:
        """Return how many tokens of all ranks it trained on a second; 0 where nothing was timed."""
        return self.timed_tokens / self.timed_s if self.timed_s else 0.0


class Seal(msgspec.Struct, frozen=True):
    """How long a file is, and its CRC-32: what tells a whole one from a torn or a damaged one."""

    size_bytes: int
    crc32: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All of a checkpoint that is no tensor.

    mesh: axis -> ranks along it, when it was written. scaler: the state of the gradient scaler; {}
    but in fp16. files: name -> seal, of all files beside the manifest. resumable: whether it has
    more than the weights.
    """

    format_version: int = FORMAT_VERSION
    terms: Terms
    strategy: str
    mesh: Mapping[str, int]
    world_size: int
    past: Past
    position: Position
    scaler: Mapping[str, int | float]
    resumable: bool = True
    files: Mapping[str, Seal] = {}


def other_training(there: Terms, asked: Terms) -> str:
    """Return in what a checkpoint's training is another one than what is asked for, or ''."""
    if there.model != asked.model:
        return f"it is of {there.model}, and this is {asked.model}"
    if there.text != asked.text:
        return "its training text is another one: name the same with --data"
    if there.global_batch != asked.global_batch:
        return f"it was written with --global-batch {there.global_batch}, not {asked.global_batch}"
    if there.steps != asked.steps:
        return (
            f"it was written with --steps {there.steps}, not {asked.steps}, and learning rates follow "
            "from that"
        )
    return ""
