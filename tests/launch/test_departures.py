import pytest

from ddpcheck.launch.endings import ending
from ddpcheck.launch.local import Departure

ENDS = [
    (0, "exit code 0"),
    (3, "exit code 3"),
    (255, "exit code 255"),
    (-9, "SIGKILL"),
    (-11, "SIGSEGV"),
    (-40, "signal 40"),
]


@pytest.mark.parametrize(("exit_code", "words"), ENDS)
def test_a_departure_says_what_ended_the_process(exit_code: int, words: str) -> None:
    assert Departure(0, exit_code).ended_by == words


@pytest.mark.parametrize(("exit_code", "words"), ENDS)
def test_a_neighbour_says_it_in_the_same_words(exit_code: int, words: str) -> None:
    assert ending(exit_code) == words
