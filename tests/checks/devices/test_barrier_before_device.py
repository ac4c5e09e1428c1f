import pytest

from ddpcheck.checks.devices.barrier_before_device import Facts, judge
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.script import Place

PLACES = (Place(5, "dist.barrier()"),)


def job(*guesses: int | None) -> dict[int, Facts]:
    """Return ranks of one host, each on the GPU of its number, with what torch would guess."""
    return {rank: Facts("/train.py", PLACES, rank, guess) for rank, guess in enumerate(guesses)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({}, id="nobody"),
        pytest.param(job(0), id="one rank"),
        pytest.param({r: Facts("/train.py", (), r, 1 - r) for r in range(2)}, id="no barrier"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("facts", [job(0, 1), job(None, None)])
def test_a_right_guess_is_information(facts: dict[int, Facts]) -> None:
    (found,) = judge(facts)
    assert (found.severity, found.ranks) == (Severity.INFO, (0, 1))


def test_a_wrong_guess_is_a_warning() -> None:
    (found,) = judge(job(0, 3, 2))
    assert (found.severity, found.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert found.ranks == (1,)
    assert "cuda:3 for rank 1" in found.message
    assert "device_id" in found.fix
    assert str(found.location) == "/train.py:5"
