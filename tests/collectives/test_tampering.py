"""What a faulty collective would leave is found, on the rank that has it, at its element."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from real_ranks import LIMIT_S, clean_environment

from ddpcheck.checks.collectives import wrong_at_times, wrong_values, wrong_when_huge
from ddpcheck.collectives.huge import PART_ELEMENTS
from ddpcheck.collectives.kinds import BY_NAME, KINDS, Seat
from ddpcheck.finding import Severity
from ddpcheck.measures.wrong_elements import Compared, Wrong

LARGE = 2 * PART_ELEMENTS + 4099  # as in tampering_rank.py
PROGRAM = Path(__file__).parent / "tampering_rank.py"
NAMES = [kind.name for kind in KINDS]
FAULTS = ["wrong element", "stale buffer", "lost tail", "swapped ranks"]
# What a rank gets of these is one block, or blocks of different sizes: nothing is to be swapped.
NOT_SWAPPED = {
    *("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "broadcast", "scatter"),
    *("all_to_all_single uneven", "send_recv", "batch_isend_irecv ring"),
}


@pytest.fixture(scope="module", params=[2, 3])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Return what so many ranks found, once for all tests."""
    return Told(request.param, tmp_path_factory.mktemp("ranks"))


class Told:
    """What each rank found, by fault and collective; the last rank is the faulty one."""

    def __init__(self, world: int, folder: Path) -> None:
        self.world = world
        results = [folder / f"{rank}.json" for rank in range(world)]
        words = [str(world), str(world - 1), str(folder / "store")]
        ranks = [
            subprocess.Popen(
                [sys.executable, PROGRAM, str(rank), *words, result], env=clean_environment()
            )
            for rank, result in enumerate(results)
        ]
        codes = []
        for rank in ranks:
            codes.append(rank.wait(LIMIT_S))
            if codes[-1]:
                for other in ranks:  # they would wait for this one
                    other.kill()
        assert codes == [0] * world
        self._by_rank = [
            msgspec.json.decode(result.read_bytes(), type=dict[str, Compared], strict=False)
            for result in results
        ]

    def facts(self, what: str) -> dict[int, Compared]:
        return {rank: own[what] for rank, own in enumerate(self._by_rank)}


@pytest.mark.parametrize("name", NAMES)
def test_a_healthy_collective_is_right(told: Told, name: str) -> None:
    facts = told.facts(f"healthy/{name}")
    assert all(fact.wrong == () for fact in facts.values())
    assert facts[0].cases > 0


def test_a_message_of_several_parts_is_right(told: Told) -> None:
    facts = told.facts("healthy/large")
    assert wrong_when_huge.judge(facts) == []
    assert {fact.elements for fact in facts.values()} == {2 * LARGE}


def test_the_lost_tail_of_such_a_message_is_found(told: Told) -> None:
    facts = told.facts("lost tail/large")
    (finding,) = wrong_when_huge.judge(facts)
    assert finding.ranks == (told.world - 1,)
    assert (finding.evidence["index"], finding.evidence["got"]) == (LARGE - 7, 0)
    assert "gives wrong values" in finding.title or "give wrong values" in finding.title
    assert finding.title.endswith("in a message of more than 2^31 elements")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_on_its_rank(told: Told, fault: str, name: str) -> None:
    world = told.world
    if fault == "swapped ranks" and name in NOT_SWAPPED:
        return
    facts = told.facts(f"{fault}/{name}")
    (finding,) = wrong_values.judge(facts)
    assert finding.severity is Severity.ERROR
    assert finding.ranks == (world - 1,)
    assert finding.evidence["collective"] == name
    assert f"rank {world - 1}: {name}" in finding.message
    (wrong,) = facts[world - 1].wrong
    if fault == "wrong element":
        assert wrong.index == elements(wrong, world) // 2
        assert wrong.wrong_elements == 1
    if fault == "lost tail":
        assert wrong.index == elements(wrong, world) - 1


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_in_one_turn_of_five_is_found(told: Told, name: str) -> None:
    world = told.world
    (finding,) = wrong_at_times.judge(told.facts(f"one turn/{name}"))
    assert finding.ranks == (world - 1,)
    assert finding.evidence["wrong_cases"] == {str(world - 1): 1}
    assert finding.evidence["turn"] == (2 if world == 2 else 1)
    assert f"first after {finding.evidence['turn']} right ones" in finding.title


def elements(wrong: Wrong, world: int) -> int:
    """Return how many elements the last rank got in the case of a wrong one."""
    kind = BY_NAME[wrong.kind]
    roots = (kind.gets(Seat(world - 1, world, root)) for root in range(world))
    blocks = next(blocks for blocks in roots if blocks)
    return sum(kind.width(wrong.size, block.of or 0, block.number) for block in blocks)
