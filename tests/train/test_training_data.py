import os
import signal
from itertools import islice

import psutil
import pytest
import torch
from torch import Tensor

from ddpcheck.target.text import TextBlocks
from ddpcheck.train.data import START, ShardedBatches, fingerprint
from ddpcheck.train.manifest import Position


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


def sharded(rank: int, world_size: int) -> ShardedBatches:
    """Return a rank's share of batches of 8 in all; an epoch is 5 of them, and a rest of 3."""
    dataset = TextBlocks(torch.arange(215, dtype=torch.uint8), block=4)  # 43 blocks
    return ShardedBatches(dataset, 8 // world_size, rank, world_size)


def steps_from(start: Position, world_size: int, count: int) -> list[tuple[int, list[int]]]:
    """Return the epoch and the first bytes of all ranks' batches, a step at a time."""
    ranks = [sharded(rank, world_size).iterate(start) for rank in range(world_size)]
    steps: list[tuple[int, list[int]]] = []
    for _ in range(count):
        batches = [next(rank) for rank in ranks]
        steps.append(
            (batches[0][0], sorted(int(byte) for _, batch in batches for byte in batch[:, 0]))
        )
    return steps


@pytest.mark.parametrize("done", range(12))
@pytest.mark.parametrize("world_size", [1, 2, 4, 8])
def test_from_any_position_the_same_samples_follow_on_any_number_of_ranks(
    done: int, world_size: int
) -> None:
    position = sharded(0, 2).position(done)
    assert position == sharded(3, 4).position(done)
    assert steps_from(position, world_size, 6) == steps_from(START, 2, done + 6)[done:]


def test_a_position_counts_samples_of_all_ranks() -> None:
    assert sharded(0, 2).position(3) == Position(epoch=0, samples=24)
    assert sharded(1, 4).position(5) == Position(epoch=1, samples=0)
    assert sharded(0, 1).position(11) == Position(epoch=2, samples=8)


def test_workers_outlive_a_signal_to_all_processes_of_the_job() -> None:
    others = psutil.Process().children()
    batches = sharded(0, 2).iterate(workers=1)
    next(batches)
    (worker,) = set(psutil.Process().children()) - set(others)
    os.kill(worker.pid, signal.SIGTERM)
    assert len(list(islice(batches, 8))) == 8
    assert worker.is_running()
