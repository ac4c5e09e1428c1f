import pytest
from msgspec import structs
from vector_sketches import sketched

from ddpcheck.checks.sharding.parameters_left_out import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

PLACE = Location("/train.py", 31, "shard")
START = {"head.weight": sketched(1.0, 2.0), "head.bias": sketched(0.5)}
GRADIENT = {"head.weight": sketched(0.1, 0.2), "head.bias": sketched(0.3)}
END = {"head.weight": sketched(0.9, 1.8), "head.bias": sketched(0.4)}
OWN = {"head.weight": sketched(0.7, 1.6), "head.bias": sketched(0.4)}
OTHER_GRADIENT = GRADIENT | {"head.weight": sketched(0.4, 0.1)}
FIRST = Facts(START, GRADIENT, END, 20, (0, 1), location=PLACE)
DRIFTED = structs.replace(FIRST, gradient=OTHER_GRADIENT, after=OWN)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(FIRST, id="alike"),
        pytest.param(structs.replace(FIRST, after=OWN), id="averaged by the script"),
        pytest.param(structs.replace(FIRST, gradient=OTHER_GRADIENT), id="alike in the end"),
        pytest.param(structs.replace(DRIFTED, before=OWN), id="a rank's own from the start"),
        pytest.param(structs.replace(DRIFTED, joint=True), id="experts, made with one seed"),
        pytest.param(structs.replace(DRIFTED, steps=19), id="it stopped a step before"),
        pytest.param(structs.replace(DRIFTED, group=(1, 2)), id="of another group"),
    ],
)
def test_silent(other: Facts) -> None:
    assert judge({0: FIRST, 1: other}) == []


def test_parameters_that_nobody_averages_are_an_error_where_the_rest_is_sharded() -> None:
    (finding,) = judge({0: FIRST, 1: DRIFTED})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1))
    assert (finding.location, finding.evidence["parameter"]) == (PLACE, "head.weight")
    assert "head.weight is the first of 1 parameters" in finding.message
    assert "differ after 20 steps" in finding.message


def test_it_is_called_as_the_script_calls_it() -> None:
    named = structs.replace(FIRST, names={"head.weight": "model.head.weight"})
    (finding,) = judge({0: named, 1: DRIFTED})
    assert finding.message.startswith("model.head.weight is the first")


def test_summary() -> None:
    assert summarize({0: FIRST}).startswith("2 parameters outside")
