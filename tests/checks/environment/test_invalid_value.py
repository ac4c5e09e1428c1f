import pytest

from ddpcheck.checks.environment.invalid_value import Facts, Wrong, judge, summarize
from ddpcheck.finding import Severity

PASSED_OVER = Wrong("NCCL_IB_DISABLE", "true", "counts as 0", is_fatal=False)
FATAL = Wrong("TORCH_NCCL_BLOCKING_WAIT", "on", "yes or no", is_fatal=True)
THREADS = Wrong("OMP_NUM_THREADS", "auto", "no number", is_fatal=False)


def rank(*wrong: Wrong, on_gpu: bool = True) -> Facts:
    return Facts("node0", on_gpu, wrong)


def test_good_values_are_silent() -> None:
    assert judge({0: rank(), 1: rank(on_gpu=False)}) == []


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        (rank(PASSED_OVER), Severity.WARNING),
        (rank(FATAL), Severity.ERROR),
        (rank(THREADS, on_gpu=False), Severity.WARNING),
        (rank(PASSED_OVER, on_gpu=False), Severity.INFO),
        (rank(FATAL, on_gpu=False), Severity.INFO),
    ],
)
def test_severity_follows_what_the_reader_does(facts: Facts, severity: Severity) -> None:
    (finding,) = judge({0: rank(), 1: facts})
    assert finding.severity is severity
    assert finding.ranks == (1,)
    assert facts.wrong[0].name in finding.fix
    assert f"{facts.wrong[0].name}={facts.wrong[0].value}" in finding.message


def test_a_thousand_ranks_are_one_finding_a_severity() -> None:
    found = judge({r: rank(PASSED_OVER, FATAL) for r in range(1000)})
    assert [finding.severity for finding in found] == [Severity.ERROR, Severity.WARNING]
    assert all("0-999" in finding.message for finding in found)


def test_summary() -> None:
    assert summarize({0: rank()}) == "all values can be read"
    assert summarize({0: rank(FATAL)}) == "values not understood: 1"
