from itertools import islice

import torch
from torch import Tensor

from ddpcheck.target.text import TextBlocks
from ddpcheck.train.data import ShardedBatches, fingerprint


def epochs(rank: int, world_size: int, count: int) -> list[list[int]]:
    """Return the first byte of every block that the rank sees, an epoch at a time."""
    dataset = TextBlocks(torch.arange(120, dtype=torch.uint8), block=4)  # 24 blocks
    batches = ShardedBatches(dataset, 4, rank, world_size)
    seen: list[list[int]] = [[] for _ in range(count)]
    for epoch, batch in islice(batches.iterate(), count * 24 // world_size // 4):
        seen[epoch] += first_bytes(batch)
    return seen


def first_bytes(batch: Tensor) -> list[int]:
    assert batch.shape == (4, 5)
    return [int(value) for value in batch[:, 0]]


def test_two_ranks_see_the_whole_text_once_an_epoch() -> None:
    for one, other in zip(epochs(0, 2, 2), epochs(1, 2, 2), strict=True):
        assert sorted(one + other) == list(range(0, 120, 5))


def test_every_epoch_has_another_order() -> None:
    first, second = epochs(0, 1, 2)
    assert first != second
    assert sorted(first) == sorted(second)


def test_a_second_pass_starts_from_the_first_epoch() -> None:
    assert epochs(0, 2, 1) == epochs(0, 2, 1)


def test_a_fingerprint_tells_texts_of_one_length_apart() -> None:
    one, other = torch.tensor([1, 2, 3]).byte(), torch.tensor([3, 2, 1]).byte()
    assert fingerprint(one) == fingerprint(one.clone())
    assert len({fingerprint(one), fingerprint(other), fingerprint(one[:2])}) == 3
