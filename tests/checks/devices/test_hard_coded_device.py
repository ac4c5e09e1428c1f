import msgspec
import pytest

from ddpcheck.checks.devices.hard_coded_device import Facts, judge
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.script import Place

PLACES = (Place(3, "model.to('cuda:0')"), Place(8, "model.to('cuda:0')"))


def rank(host: str = "node0", places: tuple[Place, ...] = PLACES, **changed: object) -> Facts:
    return msgspec.structs.replace(Facts(host, "/train.py", places, True, 8), **changed)


def on_hosts(*hosts: str) -> dict[int, Facts]:
    return {number: rank(host) for number, host in enumerate(hosts)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(on_hosts("node0"), id="one rank"),
        pytest.param(on_hosts("node0", "node1"), id="one rank a host"),
        pytest.param({r: rank(machine=f"boot{r}") for r in range(2)}, id="hosts of one name"),
        pytest.param({r: rank(gpus=1) for r in range(2)}, id="each rank is shown one GPU"),
        pytest.param({r: rank(places=()) for r in range(2)}, id="nothing found"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("world", [2, 1000])
def test_ranks_of_a_host_share_a_warning(world: int) -> None:
    (found,) = judge(on_hosts(*["node0"] * world))
    assert (found.severity, found.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert found.ranks == tuple(range(world))
    assert str(found.location) == "/train.py:3"
    assert "line 8" in found.message
    assert "LOCAL_RANK" in found.fix


def test_on_cpus_it_is_information() -> None:
    (found,) = judge({r: rank(on_gpu=False, gpus=0) for r in range(2)})
    assert found.severity is Severity.INFO
