"""NCCL's log goes to a file of ours, unless the user wants to read it; variables are put back."""

from pathlib import Path

import pytest

from ddpcheck.engine.nccl_log import KNOWN, close_log, kept_log


@pytest.mark.parametrize("level", ["", "VERSION", "WARN", "warn"])
def test_a_log_that_nobody_reads_is_kept(level: str) -> None:
    before = {"NCCL_DEBUG": level, "PATH": "/bin"} if level else {"PATH": "/bin"}
    environ = dict(before)
    with kept_log(environ) as log:
        assert environ["NCCL_DEBUG"] == "INFO"
        assert environ["NCCL_DEBUG_FILE"] == str(log)
        assert environ[KNOWN] == "false"
    assert environ == before
    assert log is not None
    assert log.exists()
    close_log(str(log), environ)
    assert not log.exists()


@pytest.mark.parametrize(
    "given", [{"NCCL_DEBUG": "INFO"}, {"NCCL_DEBUG": "TRACE"}, {"NCCL_DEBUG_FILE": "/tmp/nccl.%p"}]
)
def test_a_log_that_the_user_reads_is_left_alone(given: dict[str, str]) -> None:
    environ = dict(given)
    with kept_log(environ) as log:
        assert log is None
        assert environ == given | {KNOWN: "false"}
    assert environ == given


def test_what_the_user_set_of_torchs_warning_stays() -> None:
    environ = {KNOWN: "true"}
    with kept_log(environ) as log:
        assert environ[KNOWN] == "true"
    close_log(str(log), environ)


def test_variables_are_put_back_when_joining_fails() -> None:
    environ = {"NCCL_DEBUG": "WARN"}
    with pytest.raises(RuntimeError, match="no group"), kept_log(environ):
        raise RuntimeError("no group")
    assert environ == {"NCCL_DEBUG": "WARN"}


@pytest.mark.parametrize(("level", "told"), [("WARN", True), ("", False), ("VERSION", False)])
def test_warnings_are_handed_on_to_who_asked_for_them(
    level: str, told: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text("node0:1:1 [0] NCCL INFO Using network IB\nnode0:1:1 [0] NCCL WARN Call to x\n")
    close_log(str(log), {"NCCL_DEBUG": level})
    expected = "node0:1:1 [0] NCCL WARN Call to x\n" if told else ""
    assert capfd.readouterr().err == expected


def test_a_log_that_is_gone_is_no_error(tmp_path: Path) -> None:
    close_log(str(tmp_path / "gone"), {"NCCL_DEBUG": "WARN"})
    assert list(tmp_path.iterdir()) == []
