import msgspec
import pytest

from ddpcheck.checks.devices.slow_host_copy import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity


def gpu(number: int, there: float = 53.0, back: float = 53.2, **changed: object) -> Facts:
    own = Facts("node0", f"cuda:{number}", "NVIDIA H200", there, back, 63.0)
    return msgspec.structs.replace(own, **changed)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: gpu(0, 3.0, 3.0)}, id="alone"),
        pytest.param({0: gpu(0), 1: gpu(1, 52.5, 54.0)}, id="healthy"),
        pytest.param({0: gpu(0), 1: gpu(1, 26.0, 26.0, link_gbps=31.5)}, id="its slot allows it"),
        pytest.param({n: gpu(n, 25.0) for n in range(8)}, id="all of them"),
        pytest.param({0: gpu(0), 1: gpu(1, 12.0, 12.0, name="Tesla T4")}, id="another model"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("link", [63.0, None])
def test_a_slow_link_is_named(link: float | None) -> None:
    (found,) = judge({0: gpu(0), 1: gpu(1, 26.0, link_gbps=link), 2: gpu(2)})
    assert (found.severity, found.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert found.ranks == (1,)
    assert "rank 1 (node0, cuda:1) 26 GB/s, median 53" in found.message
    assert ("63.0" in found.message) == (link is not None)
    assert "LnkSta" in found.fix


def test_each_direction_has_a_finding() -> None:
    there, back = judge({0: gpu(0), 1: gpu(1, 26.0, 26.0)})
    assert ("to a GPU" in there.title, "from a GPU" in back.title) == (True, True)


def test_many_ranks_are_no_wall_of_text() -> None:
    facts = {n: gpu(n, 20.0 if n % 5 == 0 else 53.0) for n in range(1000)}
    (found,) = judge(facts)
    assert "and 192 more" in found.message


def test_summary() -> None:
    told = summarize({0: gpu(0), 1: gpu(1, 51.0)})
    assert told == "copies to the GPU at 51 GB/s at least (52 in the median), back at 53.2 (53.2)"
