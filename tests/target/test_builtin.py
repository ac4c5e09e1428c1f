from collections.abc import Sized
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

from ddpcheck.errors import TargetError
from ddpcheck.target.builtin import BUILT_IN, minigpt, shared_sampler
from ddpcheck.target.target import Target
from ddpcheck.target.text import TextBlocks

NAMES = sorted(BUILT_IN)


@pytest.fixture
def data(tmp_path: Path) -> str:
    file = tmp_path / "text"
    file.write_bytes(bytes(range(256)) * 80)
    return str(file)


def sampler_of(target: Target) -> DistributedSampler[Any]:
    return cast("DistributedSampler[Any]", cast("DataLoader[Any]", target.loader).sampler)


@pytest.mark.parametrize("name", NAMES)
def test_a_target_can_be_trained(name: str, data: str) -> None:
    target = BUILT_IN[name](data, 0, 2)
    assert target.optimizer is not None
    loss = target.loss(target.model, next(iter(target.loader)))
    loss.backward()
    target.optimizer.step()
    assert loss.shape == ()


@pytest.mark.parametrize("name", NAMES)
def test_ranks_start_from_the_same_weights(name: str, data: str) -> None:
    one, other = (BUILT_IN[name](data, rank, 2).model.state_dict() for rank in (0, 1))
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", NAMES)
def test_ranks_share_the_data_without_overlap(name: str, data: str) -> None:
    samplers = [sampler_of(BUILT_IN[name](data, rank, 2)) for rank in (0, 1)]
    shares = [set(sampler) for sampler in samplers]
    assert not shares[0] & shares[1]
    assert len(shares[0]) == len(shares[1])
    assert [sampler.drop_last for sampler in samplers] == [True, True]


@pytest.mark.parametrize("name", NAMES)
def test_building_and_reading_leave_the_random_state_alone(name: str, data: str) -> None:
    before = torch.get_rng_state()
    target = BUILT_IN[name](data, 0, 1)
    next(iter(target.loader))
    assert torch.equal(torch.get_rng_state(), before)


def test_batches_have_the_promised_shapes(data: str) -> None:
    assert next(iter(minigpt(data, 0, 1).loader)).shape == (4, 65)
    images, labels = next(iter(BUILT_IN["convnet"](data, 0, 1).loader))
    assert (images.shape, labels.shape) == ((32, 1, 16, 16), (32,))


def test_too_little_data_for_the_ranks_is_told(data: str) -> None:
    with pytest.raises(TargetError, match="each of 128 ranks"):
        minigpt(data, 0, 128)


@pytest.mark.parametrize("blocks", [0, 1, 7])
def test_a_share_smaller_than_a_batch_is_told(blocks: int) -> None:
    dataset = TextBlocks(torch.zeros(5 * blocks, dtype=torch.uint8), block=4)
    assert len(cast(Sized, dataset)) == blocks
    with pytest.raises(TargetError, match="--data"):
        shared_sampler(dataset, 4, 0, 2)
