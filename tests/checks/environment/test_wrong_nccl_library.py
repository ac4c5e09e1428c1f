from typing import Any

import msgspec
import pytest

from ddpcheck.checks.environment.wrong_nccl_library import Facts, judge, summarize
from ddpcheck.finding import Severity

WHEEL = "/env/nvidia/nccl/lib/libnccl.so.2"
SYSTEM = "/usr/lib/x86_64-linux-gnu/libnccl.so.2"
HEALTHY = Facts("", "2.28.9", {WHEEL: "2.28.9"}, "2.28.9", {"nvidia-nccl-cu13": "2.28.9"}, "", [])


def with_changes(own: Facts, **changed: Any) -> Facts:
    if "loaded" in changed:
        changed = {"in_use": next(iter(changed["loaded"].values())), **changed}
    return msgspec.structs.replace(own, **changed)


def ranks(world: int = 16, hosts: int = 2, **changed: Any) -> dict[int, Facts]:
    return {
        r: with_changes(HEALTHY, host=f"node{r * hosts // world}", **changed) for r in range(world)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(), id="a wheel"),
        pytest.param(ranks(packaged={}), id="no package"),
        pytest.param(ranks(in_use="", loaded={WHEEL: ""}, announced="2.1"), id="an old library"),
        pytest.param(ranks(announced="2.28.9-1"), id="an image that is right"),
        pytest.param(ranks(loaded={WHEEL: ""}), id="a library that does not tell"),
        pytest.param(
            ranks(packaged={"nvidia-nccl-cu13": "2.28.9.post1"}), id="a package with a suffix"
        ),
        pytest.param(ranks(1000, 125), id="1000 ranks"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("changed", "severity", "words"),
    [
        pytest.param(
            {"loaded": {SYSTEM: "2.15.5"}, "packaged": {}, "chosen_by": ["LD_LIBRARY_PATH"]},
            Severity.WARNING,
            [f"2.15.5 from {SYSTEM}", "2.28.9", "LD_LIBRARY_PATH leads there"],
            id="older",
        ),
        pytest.param(
            # As seen with LD_PRELOAD of the image's own library on 2 H200.
            {
                "loaded": {WHEEL: "2.28.9", SYSTEM: "2.28.3"},
                "in_use": "2.28.3",
                "announced": "2.28.3-1",
            },
            Severity.WARNING,
            [WHEEL, SYSTEM, "2.28.3 is in use"],
            id="two at once",
        ),
        pytest.param(
            {"loaded": {WHEEL: "2.30.7"}, "packaged": {"nvidia-nccl-cu13": "2.30.7"}},
            Severity.INFO,
            ["2.30.7"],
            id="upgraded",
        ),
        pytest.param(
            {"announced": "2.15.5-1"}, Severity.INFO, ["NCCL_VERSION says 2.15.5"], id="an image"
        ),
        pytest.param(
            {"packaged": {"nvidia-nccl-cu12": "2.30.7"}},
            Severity.INFO,
            ["nvidia-nccl-cu12 says 2.30.7"],
            id="an upgrade without effect",
        ),
    ],
)
def test_deviations(changed: dict[str, Any], severity: Severity, words: list[str]) -> None:
    facts = ranks(**changed)
    (finding,) = judge(facts)
    assert finding.severity is severity
    assert finding.ranks == tuple(facts)
    assert [word for word in words if word not in finding.message] == []


def test_a_mismatch_between_ranks_is_told_by_another_check() -> None:
    other = {"loaded": {WHEEL: "2.27.5"}, "built_for": "2.27.5", "packaged": {}}
    facts = ranks() | {9: with_changes(ranks()[9], **other)}
    assert judge(facts) == []


def test_summary() -> None:
    assert summarize(ranks()) == "NCCL 2.28.9 in use"
