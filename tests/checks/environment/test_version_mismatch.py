import pytest

from ddpcheck.checks.environment.version_mismatch import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity

CPU = {
    "python": "3.11",
    "python_micro": "3.11.9",
    "torch": "2.13.0",
    "torch_build": "cpu 0e5b8c8",
    "cuda": "none",
    "machine": "x86_64",
}
GPU = CPU | {
    "torch": "2.11.0",
    "torch_build": "cu130 70d99e9",
    "cuda": "13.0",
    "nccl": "2.28.9",
    "cudnn": "91900",
    "driver": "580.159.04",
}
OLD_TORCH = {"torch": "2.4.0", "torch_build": "cu124 d990dad", "cuda": "12.4", "nccl": "2.20.5"}


def ranks(
    count: int, hosts: int, *odd: int, base: dict[str, str], **changed: str
) -> dict[int, Facts]:
    """Return the facts of ``count`` ranks, of which ``odd`` have other versions."""
    return {
        rank: Facts(
            f"node{rank * hosts // count}",
            base | changed if rank in odd else base,
            f"/env{rank in odd:d}/libnccl.so.2" if "nccl" in base else "",
        )
        for rank in range(count)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1, 1, base=CPU), id="one rank"),
        pytest.param(ranks(2, 1, base=CPU), id="two ranks"),
        pytest.param(ranks(16, 2, base=GPU), id="16 ranks on 2 hosts"),
        pytest.param(
            {0: Facts("node0", GPU, "/a/libnccl.so.2"), 1: Facts("node1", GPU, "/b/libnccl.so.2")},
            id="the same NCCL in two places",
        ),
        pytest.param(
            {0: Facts("node0", GPU), 1: Facts("node1", GPU | {"driver": "580.159.04"})}, id="equal"
        ),
        pytest.param(
            {
                0: Facts("node0", GPU),
                1: Facts("node1", {n: v for n, v in GPU.items() if n != "driver"}),
            },
            id="a driver that one rank cannot tell",
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("changed", "severity", "words"),
    [
        ({"torch": "2.4.0"}, Severity.ERROR, ["2.4.0", "2.11.0"]),
        (OLD_TORCH, Severity.ERROR, ["2.4.0", "12.4", "2.20.5"]),
        ({"cuda": "12.6"}, Severity.ERROR, ["12.6", "13.0"]),
        ({"nccl": "2.23.4"}, Severity.ERROR, ["2.23.4", "2.28.9"]),
        ({"python": "3.12", "python_micro": "3.12.1"}, Severity.ERROR, ["3.12.1", "3.11.9"]),
        ({"python_micro": "3.11.2"}, Severity.WARNING, ["3.11.2"]),
        ({"torch_build": "release 70d99e9"}, Severity.WARNING, ["release"]),
        ({"cudnn": "90100"}, Severity.WARNING, ["90100"]),
        ({"driver": "470.82.01"}, Severity.WARNING, ["470.82.01"]),
        ({"machine": "aarch64"}, Severity.WARNING, ["aarch64"]),
    ],
)
def test_minority_is_named_once_with_its_host_and_versions(
    changed: dict[str, str], severity: Severity, words: list[str]
) -> None:
    (finding,) = judge(ranks(16, 4, *range(4, 8), base=GPU, **changed))
    assert finding.severity is severity
    assert (finding.confidence is Confidence.HIGH) == (severity is Severity.ERROR)
    assert finding.ranks == (4, 5, 6, 7)
    assert [word for word in (*words, "node1") if word not in finding.message] == []
    assert "node1" in finding.fix


def test_of_two_ranks_neither_is_the_odd_one() -> None:
    (finding,) = judge(ranks(2, 2, 1, base=CPU, torch="2.4.0"))
    assert finding.ranks == (0, 1)


def test_two_causes_on_two_hosts_are_two_findings() -> None:
    facts = ranks(4, 4, 1, base=GPU, nccl="2.23.4") | {3: Facts("node3", GPU | {"driver": "470.1"})}
    assert [finding.ranks for finding in judge(facts)] == [(1,), (3,)]


def test_nccl_mismatch_shows_which_library_was_loaded() -> None:
    (finding,) = judge(ranks(3, 3, 1, base=GPU, nccl="2.23.4"))
    assert finding.evidence["nccl_library"] == {
        "0": "/env0/libnccl.so.2",
        "1": "/env1/libnccl.so.2",
        "2": "/env0/libnccl.so.2",
    }


def test_summary_tells_what_all_ranks_have() -> None:
    told = summarize(ranks(3, 3, 1, base=GPU, nccl="2.23.4"))
    assert "torch 2.11.0" in told
    assert "NCCL" not in told
