import pytest

from ddpcheck.checks.environment.deprecated_variable import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.variables.renamed import Fate, fate

NOW = {"torch": "2.11.0", "nccl": "2.28.9"}


def facts(*names: str, also_set: tuple[str, ...] = (), now: dict[str, str] = NOW) -> Facts:
    fates = {name: fate(name, now) for name in names}
    return Facts("node0", now, {name: became for name, became in fates.items() if became}, also_set)


@pytest.mark.parametrize(
    "own",
    [
        facts(),
        facts("NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        facts("TORCH_NCCL_TRACE_BUFFER_SIZE", now={"torch": "2.6.0"}),
        facts("PYTORCH_CUDA_ALLOC_CONF", now={"torch": "2.8.0"}),
    ],
)
def test_names_of_today_are_silent(own: Facts) -> None:
    assert judge({0: own}) == []


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("NCCL_IB_GDR_LEVEL", "NCCL_NET_GDR_LEVEL"),
        ("NCCL_IB_CUDA_SUPPORT", "NCCL_NET_GDR_LEVEL"),
        ("NCCL_CHECKS_DISABLE", "remove"),
        ("NCCL_TREE_THRESHOLD", "remove"),
        ("NCCL_USE_COMM_NONBLOCKING", "TORCH_NCCL_USE_COMM_NONBLOCKING"),
    ],
)
def test_what_is_passed_over_is_a_warning(name: str, new: str) -> None:
    (finding,) = judge({0: facts(), 1: facts(name)})
    assert finding.severity is Severity.WARNING
    assert finding.ranks == (1,)
    assert name in finding.message
    assert new in finding.fix


@pytest.mark.parametrize(
    "own",
    [
        facts("NCCL_BLOCKING_WAIT"),
        facts("NCCL_ASYNC_ERROR_HANDLING"),
        facts("NCCL_MAX_NCHANNELS"),
        facts("PYTORCH_CUDA_ALLOC_CONF"),
        facts("NCCL_IB_GDR_LEVEL", also_set=("NCCL_NET_GDR_LEVEL",)),
        facts("NCCL_MIN_CTAS", now={"torch": "2.4.0", "nccl": "2.14.3"}),
    ],
)
def test_what_is_honoured_replaced_or_too_new_is_a_note(own: Facts) -> None:
    (finding,) = judge({0: own})
    assert finding.severity is Severity.INFO


def test_facts_survive_the_report_and_the_summary_counts() -> None:
    own = facts("NCCL_IB_GDR_LEVEL", "NCCL_BLOCKING_WAIT")
    assert summarize({0: own}) == "variables out of date: 2"
    assert isinstance(own.dated["NCCL_BLOCKING_WAIT"], Fate)
