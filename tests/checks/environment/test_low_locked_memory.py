import pytest

from ddpcheck.checks.environment.low_locked_memory import Facts, judge
from ddpcheck.finding import Confidence, Severity

KIB, MIB, GIB = 2**10, 2**20, 2**30
PORTS = ["mlx5_0:1", "mlx5_1:1"]


def ranks(soft: int | None, world: int = 16, hosts: int = 2) -> dict[int, Facts]:
    names = {r: f"node{r * hosts // world}" for r in range(world)}
    return {r: Facts(name, name, soft, PORTS) for r, name in names.items()}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(None), id="no limit"),
        pytest.param(ranks(64 * GIB), id="nearly no limit"),
        pytest.param(ranks(64 * KIB, 8, 1), id="one host needs no card"),
        pytest.param(ranks(None, 1000, 125), id="1000 ranks"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(("soft", "told"), [(64 * KIB, "64 KiB"), (8 * MIB, "8 MiB"), (0, "0 b")])
def test_the_defaults_break_nccl(soft: int, told: str) -> None:
    (finding,) = judge(ranks(None) | {3: Facts("node0", "node0", soft, PORTS)})
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == (3,)
    words = ["rank 3 on node0", told, "mlx5_0:1"]
    assert [word for word in words if word not in finding.message] == []
    assert "memlock=-1" in finding.fix


def test_two_hosts_of_one_name_are_two() -> None:
    facts = {r: Facts("node", f"{r}", 64 * KIB, PORTS) for r in range(2)}
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1))
    assert judge(dict.fromkeys(range(2), facts[0])) == []


def test_little_is_a_warning() -> None:
    (finding,) = judge(ranks(64 * MIB))
    assert finding.severity is Severity.WARNING
    assert finding.ranks == tuple(range(16))


def test_many_hosts_are_one_finding() -> None:
    (finding,) = judge(ranks(64 * KIB, 1000, 125))
    assert "and 117 more" in finding.message
