from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from vector_sketches import sketched

from ddpcheck.checks.sharding.replicated_parameter_drifts import Facts, judge, summarize
from ddpcheck.finding import Confidence, Location, Severity
from ddpcheck.measures.copies import Copies
from ddpcheck.measures.sketch import Sketch

Sketches = dict[str, Sketch]
Ranks = tuple[int, ...]

PAIR = (0, 1)
NAMES = {
    "norm": "layers.0.norm.weight",
    "column": "layers.0.up.weight",
    "bias": "layers.0.up.bias",
    "tok": "tok.weight",
}
LOADER = Location("/train.py", 40, "main")
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
    return Facts(copies, steps, list(joint), list(meshes), dict(NAMES))


def plain(
    rank: int,
    after: Sketches = MOVED,
    gradient: Sketches = WHOLE,
    *,
    joint: bool = True,
    start: Sketches | None = None,
) -> Facts:
    """Return the facts of a rank whose own tensors are split by hand."""
    before = part(rank) | NORM | (start or {})
    joint_ranks: Sequence[Ranks] = [PAIR] if joint else []
    return told(part(rank + 5) | after, part(rank) | gradient, before, under=(), joint=joint_ranks)


BIASES = sketched(0.3, 0.4)
BIAS: list[Sketches] = [{"bias": sketched(0.2, 0.5)}, {"bias": sketched(0.4, 0.1)}]
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
        pytest.param(
            {
                rank: plain(rank, MOVED | BIAS[rank], WHOLE | BIAS[rank], start={"bias": BIASES})
                for rank in PAIR
            },
            id="a bias that is split as its matrix is, and was alike by its seed",
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
    assert finding.title.startswith("parameter layers.0.norm.weight differed before the first step")
    assert "seed these ranks alike" in finding.fix
    assert finding.ranks == PAIR  # nobody can say which of them is right


def test_what_was_alike_beside_split_parameters_is_a_warning() -> None:
    (finding,) = judge({0: plain(0), 1: plain(1, OTHER, PART)})
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.evidence["group"] == [0, 1]


def test_plain_parameters_beside_tensors_of_a_mesh_are_a_warning() -> None:
    facts = {0: told(under=(), meshes=[PAIR]), 1: told(OTHER, PART, under=(), meshes=[PAIR])}
    (finding,) = judge(facts)
    assert finding.severity is Severity.WARNING


def drifting(**of: Sequence[object]) -> dict[int, Facts]:
    """Return a drift of what a mesh declares, and more facts of each rank."""
    ranks = {0: told(), 1: told(OTHER, PART)}
    return {
        rank: replace(own, **{name: values[rank] for name, values in of.items()})
        for rank, own in ranks.items()
    }


@pytest.mark.parametrize(
    ("facts", "why", "said"),
    [
        pytest.param(drifting(), "gradient", "sum its gradient", id="nothing else is known"),
        pytest.param(
            drifting(losses=[(2.5,), (2.5,)], batches=[("a",), ("b",)]),
            "gradient",
            "sum its gradient",
            id="one loss: these batches were cut into parts",
        ),
        pytest.param(
            drifting(losses=[(2.5,), (2.6,)], batches=[("a",), ("b",)]),
            "batches",
            "the same batches",
            id="other batches",
        ),
        pytest.param(
            drifting(losses=[(2.5,), (2.6,)], batches=[("a",), ()]),
            "losses",
            "2.5 and 2.6",
            id="one rank loads for both, or the script makes up its batches",
        ),
        pytest.param(
            drifting(losses=[(2.5,), (2.6,)], batches=[("a",), ("a",)]),
            "losses",
            "draw the same dropout",
            id="another loss of the same batch",
        ),
        pytest.param(
            drifting(losses=[(2.5,), ()], batches=[("a",), ("a",)]),
            "gradient",
            "sum its gradient",
            id="the loss of a rank is not known",
        ),
        pytest.param(
            drifting(losses=[(2.5,), (2.6,)], batches=[("a",), ("b",)], averaged=[PAIR, PAIR]),
            "gradient",
            "set_requires_all_reduce",
            id="replicas that FSDP averages have other batches",
        ),
    ],
)
def test_the_fix_is_of_what_differed_first(facts: dict[int, Facts], why: str, said: str) -> None:
    (finding,) = judge(facts)
    assert finding.evidence["cause"] == why
    assert said in finding.message + finding.fix


def test_the_loader_is_the_place_of_unlike_batches() -> None:
    facts = drifting(losses=[(2.5,), (2.6,)], batches=[("a",), ("b",)], location=[LOADER, LOADER])
    (finding,) = judge(facts)
    assert (finding.location, finding.ranks) == (LOADER, PAIR)


def beside_a_mesh(rank: int, batches: tuple[str, ...] = ()) -> Facts:
    """Return a rank's facts of a model whose embedding is in no plan, and was made of its own seed."""
    own = told(OTHER if rank else MOVED, PART if rank else WHOLE, meshes=[PAIR])
    start = {"tok": sketched(float(rank), 3.0)}
    copies = [*own.copies, Copies((), start, [], start)]
    return replace(own, copies=copies, losses=(2.5 + rank,), batches=batches)


def test_what_is_plain_beside_a_mesh_and_started_apart_is_the_cause_and_told_once() -> None:
    (finding,) = judge({rank: beside_a_mesh(rank) for rank in PAIR})
    assert finding.title.startswith("parameter tok.weight differed before the first step")
    assert "the same batches" not in finding.fix
    (finding,) = judge({rank: beside_a_mesh(rank, (f"of {rank}",)) for rank in PAIR})
    assert "the same batches" in finding.fix


def by_hand(rank: int, *, alike: bool) -> Facts:
    """Return a rank's facts of a model that is split by hand, and the norm's gradient not summed."""
    start: Sketches = {"tok": sketched(0.0 if alike else float(rank), 3.0)}
    own = plain(rank, OTHER if rank else MOVED, PART if rank else WHOLE, start=start)
    return replace(own, losses=(2.5 + rank,), constants=["norm"])


def test_of_a_split_by_hand_of_which_nothing_random_is_alike_nobody_knows_what_is_a_copy() -> None:
    (finding,) = judge({rank: by_hand(rank, alike=False) for rank in PAIR})
    assert finding.evidence["cause"] == "gradient"
    assert finding.title.startswith("parameter layers.0.norm.weight drifts apart")
    assert "as parts do that were split by hand" in finding.message
    assert (
        "where layers.0.up.weight is meant to be a copy, too, seed these ranks alike" in finding.fix
    )
    (finding,) = judge({rank: by_hand(rank, alike=True) for rank in PAIR})
    assert finding.evidence["cause"] == "losses"


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
