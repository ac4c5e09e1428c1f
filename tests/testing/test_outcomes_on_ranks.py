"""What pytest makes of a test whose ranks differ: subtests, expected failures, interruptions."""

from __future__ import annotations

import pytest
import torch
from own_pytest import of, run, summary, written

from ddpcheck.testing.errands import sendable


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what pytest prints of the suite."""
    return run(written(tmp_path_factory.mktemp("outcomes"), "outcomes_on_ranks"))


def test_outcomes_of_all_ranks(printed: str) -> None:
    found = summary(printed.replace("TestParts::", ""))
    passed = {test for test, outcome in found.items() if outcome == "PASSED"}
    warns = "test_warns"
    assert passed == {"test_part_on_one_rank", "test_unsendable_property", warns}, printed
    expected = {test for test, outcome in found.items() if outcome == "XFAIL"}
    assert expected == {"test_fails_on_one", "test_known_on_one"}, printed
    assert found["test_no_longer_known"] == "FAILED", printed


def test_a_subtest_that_fails_on_one_rank_fails_the_test(printed: str) -> None:
    assert "SUBFAILED(number='1')" in printed or "SUBFAIL" in printed, printed
    assert "test_part_fails_on_one - contains 1 failed subtest" in printed


def test_a_test_that_ends_its_pytest_is_told_with_its_line(printed: str) -> None:
    assert "rank 1 could not run the test: it raised KeyboardInterrupt at test_outcomes" in printed


def test_warnings_of_ranks_are_in_the_summary_once(printed: str) -> None:
    shown = printed.partition("warnings summary")[2]
    assert shown.count("UserWarning: the same on both") == 1, printed
    for rank in range(2):
        assert shown.count(f"OldSettingWarning: of rank {rank}") == 1, printed


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="there are GPUs")
def test_a_backend_that_needs_gpus_says_so(printed: str) -> None:
    shown = of("test_no_gpus", printed)
    assert "backend='nccl' takes 2 GPUs, one a rank: here are 0" in shown
    assert "ERROR at teardown" not in printed


def test_what_cannot_be_sent_is_described() -> None:
    sent = sendable({"a": 1, "b": [2, lambda: 3]})
    assert sent["a"] == 1
    assert sent["b"][0] == 2
    assert "<lambda>" in sent["b"][1]
