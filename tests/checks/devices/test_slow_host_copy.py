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


@pytest.mark.parametrize("world", [1, 2])
def test_a_link_that_stays_low_under_load_is_named_even_where_all_are_so(world: int) -> None:
    low = {"generation": 1, "best_generation": 5, "width": 16}
    (found,) = judge({n: gpu(n, 3.1, 3.2, **low) for n in range(world)})
    assert (found.severity, found.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert found.ranks == tuple(range(world))
    assert "rank 0 (node0, cuda:0): generation 1 of 5, 3.1 GB/s" in found.message
    assert "LnkSta" in found.fix


def test_a_low_link_is_told_once() -> None:
    low = gpu(1, 12.1, 12.4, generation=3, best_generation=5, width=None)
    (found,) = judge({0: gpu(0), 1: low, 2: gpu(2)})
    assert found.ranks == (1,)
    assert "generation 3 of 5" in found.message


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"generation": 5, "best_generation": 5}, id="the best"),
        pytest.param({"generation": 1, "best_generation": 5, "width": 16}, id="told while idle"),
        pytest.param({"generation": 1, "best_generation": 5}, id="told while idle, width unknown"),
        pytest.param({"generation": 0, "best_generation": 5}, id="not told"),
        pytest.param({"generation": 4, "best_generation": 0}, id="best not told"),
    ],
)
def test_a_generation_that_the_copies_belie_is_silent(own: dict[str, int]) -> None:
    assert judge({0: gpu(0, **own), 1: gpu(1, **own)}) == []


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
