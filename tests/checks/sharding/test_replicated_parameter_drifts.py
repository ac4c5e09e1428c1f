from collections.abc import Sequence

import pytest
from vector_sketches import sketched

from ddpcheck.checks.sharding.replicated_parameter_drifts import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.copies import Copies
from ddpcheck.measures.sketch import Sketch

Sketches = dict[str, Sketch]
Ranks = tuple[int, ...]

PAIR = (0, 1)
NORM: Sketches = {"norm": sketched(1.0, 1.0)}
MOVED: Sketches = {"norm": sketched(0.9, 0.95)}
OTHER: Sketches = {"norm": sketched(0.97, 0.9)}
WHOLE: Sketches = {"norm": sketched(1.0, 0.5)}
PART: Sketches = {"norm": sketched(0.2, 0.7)}


def part(rank: int) -> Sketches:
    """Return what a rank has of a matrix that is split."""
    return {"column": sketched(rank, 2.0)}


def told(
    after: Sketches = MOVED,
    gradient: Sketches = WHOLE,
    before: Sketches = NORM,
    *,
    under: Ranks = PAIR,
    joint: Sequence[Ranks] = (),
    meshes: Sequence[Ranks] = (),
    steps: int = 4,
) -> Facts:
    copies = [Copies(under, before, [gradient, gradient], after)]
    return Facts(copies, steps, list(joint), list(meshes), {"norm": "layers.0.norm.weight"})


def plain(rank: int, after: Sketches = MOVED, gradient: Sketches = WHOLE, **more: object) -> Facts:
    """Return the facts of a rank whose own tensors are split by hand."""
    before = part(rank) | NORM
    joint: Sequence[Ranks] = [PAIR] if more.get("joint", True) else []
    return told(part(rank + 5) | after, part(rank) | gradient, before, under=(), joint=joint)


ROUNDED: Sketches = {"norm": sketched(0.9, 0.95 * (1 + 1e-6))}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: told(), 1: told()}, id="alike"),
        pytest.param({0: told(), 1: told(gradient=PART)}, id="an optimizer that sums by itself"),
        pytest.param({0: told(), 1: told(ROUNDED)}, id="rounding"),
        pytest.param({0: told(), 1: told(OTHER, PART, steps=3)}, id="it stopped a step early"),
        pytest.param({0: told(), 2: told(OTHER, PART)}, id="one of its group told nothing"),
        pytest.param({0: plain(0), 1: plain(1)}, id="split by hand, and summed"),
        pytest.param(
            {0: plain(0, joint=False), 1: plain(1, OTHER, PART, joint=False)},
            id="stages of a pipeline, or models of their own: they share no backward pass",
        ),
        pytest.param(
            {
                rank: told(after, gradient, under=(), joint=[PAIR])
                for rank, (after, gradient) in enumerate([(MOVED, WHOLE), (OTHER, PART)])
            },
            id="experts made from one seed: all of them alike at first, and nothing split",
        ),
        pytest.param(
            {
                rank: told(after, gradient, {"bias": sketched(0.0)}, under=(), meshes=[PAIR])
                for rank, (after, gradient) in enumerate(
                    [({"bias": sketched(0.1)},) * 2, ({"bias": sketched(0.7)},) * 2]
                )
            },
            id="zeros, as the biases of a split matrix are",
        ),
        pytest.param(
            {0: plain(0), 1: plain(1, {"norm": sketched(0.9, 0.951)})},
            id="plain ones apart, though gradients were the same",
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_what_a_mesh_declares_to_be_alike_is_an_error() -> None:
    (finding,) = judge({0: told(), 1: told(OTHER, PART)})
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == (1,)
    assert "layers.0.norm.weight" in finding.title
    assert "its gradient of step 0" in finding.message


def test_what_differs_before_the_first_step_is_an_error() -> None:
    (finding,) = judge({0: told(), 1: told(OTHER, before={"norm": sketched(2.0, 1.0)})})
    assert (finding.severity, finding.evidence["step"]) == (Severity.ERROR, None)


def test_what_was_alike_beside_split_parameters_is_a_warning() -> None:
    (finding,) = judge({0: plain(0), 1: plain(1, OTHER, PART)})
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.evidence["group"] == [0, 1]


def test_plain_parameters_beside_tensors_of_a_mesh_are_a_warning() -> None:
    facts = {0: told(under=(), meshes=[PAIR]), 1: told(OTHER, PART, under=(), meshes=[PAIR])}
    (finding,) = judge(facts)
    assert finding.severity is Severity.WARNING


def test_groups_of_a_mesh_are_one_finding() -> None:
    pairs = [(0, 1), (2, 3)]
    facts = {
        rank: told(OTHER, PART, under=pair) if rank % 2 else told(under=pair)
        for pair in pairs
        for rank in pair
    }
    (finding,) = judge(facts)
    assert finding.ranks == (1, 3)
    assert "1 more group" in finding.message


def test_summary() -> None:
    assert summarize({0: told()}).startswith("1 parameters that may be copies")
