"""Which gradients are alike but for a factor of each rank's."""

import pytest
from vector_sketches import sketched

from ddpcheck.checks.gradients.replicas_differ import Facts
from ddpcheck.measures.clipped import scaled_alike


def rank(factor: float, *, head: float = 1.0, body: float = 2.0) -> Facts:
    """Return what a rank tells that clips two averaged gradients and one of its own."""
    gradients = {
        "body.weight": sketched(factor, 2 * factor, -factor),
        "body.bias": sketched(factor * body, factor),
        "head.weight": sketched(factor * head, factor, factor),
        "head.bias": sketched(factor * head),
    }
    return Facts(2.0**-23, {}, [gradients], {}, 4)


def test_averaged_gradients_have_one_factor_and_a_ranks_own_has_not() -> None:
    told = {0: rank(1.0), 1: rank(0.8, head=3.0), 2: rank(0.7, head=0.2)}
    assert scaled_alike(told) == {"body.weight", "body.bias"}


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(
            {0: rank(1.0), 1: rank(0.8, head=3.0, body=5.0)}, id="only one of several numbers"
        ),
        pytest.param({0: Facts(0.0, {}, [], {}, 1), 1: Facts(0.0, {}, [], {}, 1)}, id="none known"),
        pytest.param({0: rank(1.0), 1: rank(0.0)}, id="nothing on one rank"),
        pytest.param({0: rank(1.0), 1: rank(float("nan"))}, id="not a number"),
    ],
)
def test_none_are(told: dict[int, Facts]) -> None:
    assert scaled_alike(told) == set()
