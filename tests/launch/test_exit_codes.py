"""What a host's command ends with, whose ranks an elastic agent has started."""

import os
from pathlib import Path

import pytest

from ddpcheck.errors import ExitCode
from ddpcheck.launch.exit_codes import (
    VARIABLE,
    exit_code_of_ranks,
    kept_exit_codes,
    leave_exit_code,
)


def left(folder: Path, *codes: int) -> Path:
    for number, code in enumerate(codes):
        (folder / str(number)).write_text(str(code))
    return folder


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        pytest.param((1, 1), ExitCode.FINDINGS, id="findings"),
        pytest.param((2, 2), ExitCode.USAGE, id="usage"),
        pytest.param((3, 3), ExitCode.INTERNAL, id="a bug"),
        pytest.param((4,), ExitCode.INCOMPLETE, id="one rank was killed"),
        pytest.param((130, 130), ExitCode.INTERRUPTED, id="Ctrl-C"),
        pytest.param((1, 4), ExitCode.INCOMPLETE, id="4 wins over 1"),
        pytest.param((4, 130), ExitCode.INTERRUPTED, id="what was interrupted is not complete"),
        pytest.param((0, 3), ExitCode.INTERNAL, id="one came through"),
        pytest.param((), ExitCode.INCOMPLETE, id="all were killed"),
        pytest.param((0, 0), ExitCode.INCOMPLETE, id="an agent that lost its node"),
        pytest.param((77,), ExitCode.INCOMPLETE, id="no code of ours"),
    ],
)
def test_the_gravest_code_of_the_ranks_is_the_commands(
    codes: tuple[int, ...], code: ExitCode, tmp_path: Path
) -> None:
    assert exit_code_of_ranks(left(tmp_path, *codes), agents=1) == code


def test_an_agent_that_is_content_had_ranks_that_were(tmp_path: Path) -> None:
    assert exit_code_of_ranks(left(tmp_path, 0, 0), agents=0) == ExitCode.OK


def test_a_rank_leaves_its_code_where_it_is_told_to() -> None:
    with kept_exit_codes() as folder:
        leave_exit_code({VARIABLE: str(folder)}, ExitCode.INTERNAL)
        assert (folder / str(os.getpid())).read_text() == "3"
        assert exit_code_of_ranks(folder, agents=1) == ExitCode.INTERNAL
    assert not folder.exists()
    leave_exit_code({VARIABLE: str(folder)}, ExitCode.INTERNAL)
    leave_exit_code({}, ExitCode.INTERNAL)
    assert not folder.exists()
