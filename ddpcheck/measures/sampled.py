"""Whether ranks train on the same samples, though each has changed them in its own way."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

Digests = tuple[str, ...]


class Sampled(msgspec.Struct, frozen=True):
    """The first batches that a rank trained on: which samples of which dataset, and what they were.

    ``draws`` has a digest of the dataset's content and the indices for each batch, '' where the one
    does not tell a sample, or where the model was given a part of the batch. ``tensors`` has one of
    each tensor of a batch, '' of one that tells nothing. Files of one name are the same ones on one
    ``host``. ``is_own`` is whether a sampler of the
    script's own, or a DistributedSampler, has chosen them.
    """

    draws: Digests = ()
    tensors: tuple[Digests, ...] = ()
    host: str = ""
    is_own: bool = False


def same_samples(told: Sequence[Sampled], least: int) -> int:
    """Return how many batches are of the same samples on all ranks, 0 where that is not sure.

    A dataset may make samples up whatever the index is, each rank its own: something that it gave
    for them, a label, has to be the same as well. ``least`` is how many have to be told apart.
    """
    if len({own.host for own in told}) == len(told):
        return 0
    count = min(min(len(own.draws), len(own.tensors)) for own in told)
    if len({own.tensors[:count] for own in told}) < len(told):
        return 0  # equal batches are another matter: each rank may go on with a part of its own
    draws = {own.draws[:count] for own in told}
    if len(draws) > 1 or "" in (first := draws.pop()) or len(set(first)) < least:
        return 0
    batches = list(zip(*(own.tensors[:count] for own in told), strict=True))
    width = min(len(tensors) for each in batches for tensors in each)
    columns = ([[tensors[at] for tensors in each] for each in batches] for at in range(width))
    return count if any(_is_label(column, least) for column in columns) else 0


def _is_label(column: Collection[Sequence[str]], least: int) -> bool:
    """Return whether a tensor was the same on all ranks in each batch, and told batches apart."""
    is_same = all(len(set(each)) == 1 for each in column)
    return is_same and len({each[0] for each in column} - {""}) >= least
