import json
import re

import pytest

from ddpcheck.checks.ranks.raised import judge
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.testimony import State, Testimony

Ranks = dict[int, Testimony]

CHECK = "collectives/wrong-values"
TRAINING = "rehearsal/training"
JOINING = "collectives/joining-the-group"
OWN = "ValueError: Expected input batch_size (3) to match target batch_size (4)."
MEMORY = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
PEER = "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.7]:7605"


def raised(error: str = OWN, order: int = 1, check: str = CHECK) -> Testimony:
    return Testimony(
        state=State.RAISED, check=check, error=error, order=order, stack=f"Traceback: {error}"
    )


def waiting(*, by: str = "") -> Testimony:
    return Testimony(
        state=State.BUSY, check=CHECK, overran=not by, waits_in="all_reduce", interrupted_by=by
    )


def gone(by: str, order: int) -> Testimony:
    return Testimony(state=State.GONE, check=CHECK, ended_by=by, order=order)


def world(size: int, each: Testimony) -> Ranks:
    return dict.fromkeys(range(size), each)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(world(1, Testimony()), id="one rank"),
        pytest.param(world(64, Testimony()), id="64 ranks"),
        pytest.param({0: raised()}, id="the only rank is every rank"),
        pytest.param(
            {rank: raised(order=rank + 1) for rank in range(4)}, id="a fault of the check's own"
        ),
        pytest.param(
            {0: raised(PEER, 1), 1: gone("SIGKILL", 3), 2: raised(PEER, 2)},
            id="victims of one killed",
        ),
        pytest.param(
            {0: raised(PEER, 1), 1: Testimony(state=State.STOPPED, check=CHECK)},
            id="the victim of one stopped",
        ),
        pytest.param(
            world(3, Testimony()) | {1: raised(check=TRAINING)}, id="a training has its own check"
        ),
        pytest.param(
            {
                0: raised(PEER, 2, TRAINING),
                1: raised(OWN, 1, TRAINING),
                2: raised(PEER, 3, TRAINING),
            },
            id="and so have its victims",
        ),
        pytest.param(
            world(3, Testimony()) | {1: raised(check=JOINING)}, id="joining has its own check"
        ),
        pytest.param(world(3, waiting(by="SIGINT")), id="interrupted"),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "ranks", "first", "error"),
    [
        pytest.param(
            world(3, Testimony()) | {2: raised()}, (2,), 2, OWN, id="the others came through"
        ),
        pytest.param(world(64, waiting()) | {13: raised()}, (13,), 13, OWN, id="63 wait for it"),
        pytest.param(
            {0: raised(PEER, 1), 1: raised(MEMORY, 3), 2: raised(PEER, 2), 3: gone("SIGABRT", 4)},
            (1,),
            1,
            MEMORY,
            id="its victims are left out",
        ),
        pytest.param(
            world(3, waiting()) | {1: raised(check=TRAINING)},
            (1,),
            1,
            OWN,
            id="in the training, whose check has not heard of those cut off",
        ),
        pytest.param(
            world(8, waiting()) | {2: raised(OWN, 2), 5: raised(OWN, 1)},
            (2, 5),
            5,
            OWN,
            id="two, the same",
        ),
        pytest.param(
            world(8, waiting()) | {2: raised(OWN, 2), 5: raised(MEMORY, 1)},
            (2, 5),
            5,
            MEMORY,
            id="two, each its own: the first is told",
        ),
    ],
)
def test_who_raised_by_itself_is_named_and_its_victims_are_not(
    facts: Ranks, ranks: tuple[int, ...], first: int, error: str
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.title == f"a check raised on {len(ranks)} of {len(facts)} ranks"
    assert finding.ranks == ranks
    assert f"rank {first}" in finding.message
    assert error in finding.message
    assert facts[first].check in finding.message
    assert finding.fix


# All that torchrun prints of a run is the message: it is left in the error file without its ranks.
def test_the_message_names_all_that_raised() -> None:
    (finding,) = judge(world(8, waiting()) | {2: raised(OWN, 2), 5: raised(OWN, 1)})
    listed = re.findall(r"ranks? (\d+(?:, \d+)*)", finding.message)
    assert sorted(rank for each in listed for rank in each.split(", ")) == ["2", "5"]


def test_the_evidence_keeps_the_first_ones_stack() -> None:
    (finding,) = judge(world(4, waiting()) | {1: raised(OWN, 2), 3: raised(MEMORY, 1, TRAINING)})
    assert json.loads(json.dumps(finding.evidence)) == {
        "check": TRAINING,
        "stack": f"Traceback: {MEMORY}",
    }
