from itertools import combinations

import pytest

from ddpcheck.measures.rounds import EVERYBODY_COUNT, partners


@pytest.mark.parametrize("world", [*range(1, 10), EVERYBODY_COUNT, EVERYBODY_COUNT + 1, 100, 512])
def test_partners_have_each_other_in_every_round(world: int) -> None:
    everyone = [partners(rank, world) for rank in range(world)]
    assert len({len(own) for own in everyone}) == 1
    for rank, own in enumerate(everyone):
        for turn, other in enumerate(own):
            assert other is None or (other != rank and everyone[other][turn] == rank)


@pytest.mark.parametrize("world", [2, 3, 4, 5, 8, 31, EVERYBODY_COUNT])
def test_all_pairs_of_a_few_ranks_meet_once(world: int) -> None:
    met = [
        (rank, other)
        for rank in range(world)
        for other in partners(rank, world)
        if other is not None and other > rank
    ]
    assert sorted(met) == list(combinations(range(world), 2))


@pytest.mark.parametrize(("world", "rounds"), [(33, 6), (64, 6), (512, 9), (4096, 12)])
def test_many_ranks_meet_in_few_rounds(world: int, rounds: int) -> None:
    assert len(partners(0, world)) == rounds
    assert all(any(other is not None for other in partners(rank, world)) for rank in range(world))
