import random

import pytest

from ddpcheck.measures.means import Mean, may_be_chance, misplaced_share


def means(*counted: int, gradients: tuple[float, ...] = ()) -> list[Mean]:
    """Return a mean of each rank, to which these gradients came: 1 where none are given."""
    came = gradients or (1.0,) * len(counted)
    return [Mean(0, 0, 0, 10, n, 1, g) for n, g in zip(counted, came, strict=True)]


@pytest.mark.parametrize(
    ("counted", "gradients", "share"),
    [
        ((8, 8), (), 0.0),
        ((8, 8), (0.3, 0.7), 0.0),
        ((2, 8), (), 0.3),
        ((2, 8), (0.2, 0.8), 0.0),
        ((2, 8), (2048.0, 2048.0), 0.3),
        ((2, 8), (-1.0, -1.0), 0.3),
        ((1, 1, 1, 5), (), 0.375),
        ((0, 0), (), 0.0),
        ((2, 8), (0.0, 0.0), 0.0),
        ((2, 8), (float("nan"), 1.0), 0.0),
        ((2, 8), (float("inf"), 1.0), 0.0),
        ((0, 8), (), 0.5),
    ],
)
def test_misplaced_share(
    counted: tuple[int, ...], gradients: tuple[float, ...], share: float
) -> None:
    assert misplaced_share(means(*counted, gradients=gradients)) == pytest.approx(share)


@pytest.mark.parametrize(
    ("targets", "counted", "runs", "scattered"),
    [
        (128, 20, 17, True),
        (128, 20, 4, False),
        (128, 128, 1, False),
        (6, 2, 1, True),
        (9, 0, 0, True),
    ],
)
def test_scattered(targets: int, counted: int, runs: int, scattered: bool) -> None:
    assert Mean(0, 0, 0, targets, counted, runs, 1.0).is_scattered is scattered


@pytest.mark.parametrize("world", [2, 8])
@pytest.mark.parametrize(("targets", "steps"), [(128, 4), (128, 50), (512, 20)])
def test_words_that_are_masked_by_chance(world: int, targets: int, steps: int) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        masked = [
            [sum(rng.random() < 0.15 for _ in range(targets)) for _ in range(world)]
            for _ in range(steps)
        ]
        assert may_be_chance(masked), (seed, masked)


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([[2, 8]] * 8, id="few, always"),
        pytest.param([[2, 4]] * 20, id="one rank always has more"),
        pytest.param([[120, 300], [290, 150], [200, 410]], id="texts of different lengths"),
        pytest.param([[40, 40, 40, 160]] * 2, id="one of four ranks"),
    ],
)
def test_no_chance(counts: list[list[int]]) -> None:
    assert not may_be_chance(counts)


@pytest.mark.parametrize("counts", [[], [[0, 0]], [[5, 5]] * 9, [[2, 8]]])
def test_too_little_to_tell(counts: list[list[int]]) -> None:
    assert may_be_chance(counts)
