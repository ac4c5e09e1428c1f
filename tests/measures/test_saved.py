from typing import Any

import pytest

from ddpcheck.measures.saved import OPTIMIZER_KEYS, has_state, has_weights


class Floats:
    """A tensor, as far as it is looked at."""

    def __init__(self, ndim: int = 2) -> None:
        self.ndim = ndim

    def is_floating_point(self) -> bool:
        return True


class Integers(Floats):
    def is_floating_point(self) -> bool:
        return False


NESTED = {"state": {"0.weight": {"exp_avg": Floats()}}, "param_groups": [{"lr": 0.1}]}
FLAT = {"state.0.weight.exp_avg": Floats(), "param_groups.0.weight.lr": 0.1}


@pytest.mark.parametrize("value", [NESTED, FLAT, {"optim": NESTED}, {"app": {"optim": FLAT}}])
def test_an_optimizers_state_nested_or_flat(value: Any) -> None:
    assert has_state(value, OPTIMIZER_KEYS)
    assert not has_weights(value)


@pytest.mark.parametrize(
    "value",
    [{"model": {"0.weight": Floats()}}, {"0.weight": Floats()}, {"app": {"m": {"w": Floats()}}}],
)
def test_weights(value: Any) -> None:
    assert has_weights(value)
    assert has_weights(value | {"optim": NESTED})
    assert not has_state(value, OPTIMIZER_KEYS)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"epoch": 3, "seed": Integers()}, id="numbers"),
        pytest.param({"loss": Floats(ndim=0)}, id="a single number"),
        pytest.param({"state": {}}, id="no groups"),
        pytest.param({"a": {"b": {"c": {"d": {"e": Floats()}}}}}, id="too deep"),
    ],
)
def test_neither(value: Any) -> None:
    assert not has_weights(value)
    assert not has_state(value, OPTIMIZER_KEYS)
