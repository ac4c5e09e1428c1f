import pytest

from ddpcheck.measures.schedule import (
    Pace,
    ended_early,
    is_per_batch,
    is_per_rank,
    is_planned_in_optimizer_steps,
    ran_its_plan,
)


def pace(each: int = 2, most: int | None = None, **changes: object) -> Pace:
    return Pace("LambdaLR", steps=5, total=6, fewest=each, most=most or each, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("own", "world", "expected"),
    [
        (pace(2), 2, True),
        (pace(2), 8, False),
        (pace(1), 1, False),
        (pace(2, 3), 2, False),
        (Pace("LambdaLR", steps=2, fewest=2, most=2), 2, False),
    ],
)
def test_one_step_for_each_rank(own: Pace, world: int, expected: bool) -> None:
    assert is_per_rank(own, world) is expected


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (pace(4, per_backward=True), True),
        (pace(4, 6, per_backward=True), True),
        (pace(4), False),
        (pace(1, per_backward=True), False),
    ],
)
def test_one_step_for_each_backward_pass(own: Pace, expected: bool) -> None:
    assert is_per_batch(own) is expected


@pytest.mark.parametrize(
    ("idle", "total", "expected"), [(1, 2, False), (2, 10, True), (2, 11, False), (50, 100, True)]
)
def test_a_rounded_end_is_not_early(idle: int, total: int, expected: bool) -> None:
    assert ended_early(Pace("", idle=idle, total=total)) is expected


@pytest.mark.parametrize(
    ("planned", "batches", "backwards", "expected"),
    [
        pytest.param(3 * 25, 25, 1.0, True, id="3 epochs of a rank's batches"),
        pytest.param(3 * 50, 25, 1.0, False, id="3 epochs of all ranks' batches"),
        pytest.param(3 * 49, 25, 1.0, False, id="and of one batch less, which is made up"),
        pytest.param(4 * 25, 25, 1.0, False, id="4 epochs of one, or 2 of the other"),
        pytest.param(1000, 1563, 1.0, False, id="a number of steps"),
        pytest.param(0, 25, 1.0, False, id="no plan is known"),
        pytest.param(75, 0, 1.0, False, id="the loader does not say"),
        pytest.param(3, 3, 1.0, False, id="epochs too short to tell"),
        pytest.param(5 * 6, 25, 4.0, True, id="5 epochs of 6 optimizer steps"),
        pytest.param(5 * 7, 25, 4.0, True, id="5 epochs of 6 and a rest"),
    ],
)
def test_what_the_plan_is_in(planned: int, batches: int, backwards: float, expected: bool) -> None:
    own = pace(2, planned=planned, batches=batches, backwards=backwards)
    assert is_planned_in_optimizer_steps(own) is expected


def test_a_plan_in_batches_of_one_that_accumulates() -> None:
    own = pace(4, batches=25, backwards=4.0, per_backward=True, planned=3 * 25)
    assert not is_planned_in_optimizer_steps(own)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param(pace(planned=12), True, id="all of it"),
        pytest.param(pace(planned=13), True, id="all but a rest"),
        pytest.param(pace(planned=24), False, id="half of it"),
        pytest.param(pace(), False, id="no plan is known"),
        pytest.param(pace(rest=0.03), True, id="it came to nearly nothing"),
        pytest.param(pace(rest=0.03, idle=3), False, id="and that early"),
        pytest.param(pace(planned=6, idle=3), False, id="it was over early"),
    ],
)
def test_a_plan_that_was_run(own: Pace, expected: bool) -> None:
    assert ran_its_plan(own) is expected
