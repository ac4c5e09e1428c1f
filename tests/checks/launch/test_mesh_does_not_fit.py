import pytest

from ddpcheck.checks.launch.mesh_does_not_fit import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.measures.mesh import parse_mesh


def ranks(mesh: str, world: int) -> dict[int, Facts]:
    return dict.fromkeys(range(world), Facts(parse_mesh(mesh), world))


@pytest.mark.parametrize(
    ("mesh", "world"), [("dp=2", 2), ("dp=2,tp=4", 8), ("dp=2,tp=2,pp=2", 8), ("dp=1,tp=1", 1)]
)
def test_a_mesh_with_a_place_for_each_rank_is_silent(mesh: str, world: int) -> None:
    assert judge(ranks(mesh, world)) == []
    assert summarize(ranks(mesh, world)) == f"{mesh} has {world} places for {world} ranks"


@pytest.mark.parametrize(
    ("mesh", "world", "places", "choice"),
    [
        ("dp=3,tp=2", 8, 6, "dp=1,tp=8; dp=2,tp=4; dp=4,tp=2; dp=8,tp=1"),
        ("dp=2,tp=2", 2, 4, "dp=1,tp=2; dp=2,tp=1"),
        ("tp=8", 7, 8, "tp=7"),
    ],
)
def test_another_product_is_an_error_with_what_would_fit(
    mesh: str, world: int, places: int, choice: str
) -> None:
    (finding,) = judge(ranks(mesh, world))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, tuple(range(world)))
    assert finding.message == f"{mesh} makes {places}, and {world} ranks came"
    assert finding.fix == f"start {places} ranks, or choose from: {choice}"


def test_unlike_meshes_are_an_error_on_the_ranks_that_differ() -> None:
    facts = ranks("dp=2,tp=2", 4) | {3: Facts(parse_mesh("dp=4"), 4)}
    (finding,) = judge(facts)
    assert finding.ranks == (3,)
    assert finding.message == "rank 3: dp=4, others: dp=2,tp=2"
