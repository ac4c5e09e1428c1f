import pytest

from ddpcheck.checks.devices.wrong_device import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity

Ranks = dict[int, Facts]
Misplaced = tuple[str, str, str]

OTHERS_GPU = "GPU-55c016a6-9d7d-046b-9d59-e5f62f91ed26"
WEIGHT = ("parameter", "head.weight", "cuda:0")
BUFFER = ("buffer", "norm.running_mean", "cpu")
STATE = ("optimizer state", "0.exp_avg", "cuda:0")


def rank(device: str, *misplaced: Misplaced, elsewhere: tuple[str, ...] = ()) -> Facts:
    return Facts(device, 120, misplaced, elsewhere)


def on_gpus(world: int) -> Ranks:
    return {each: rank(f"cuda:{each % 8}") for each in range(world)}


def on_cpu(world: int) -> Ranks:
    return {each: rank("cpu") for each in range(world)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(on_cpu(1), id="one rank on the CPU"),
        pytest.param(on_cpu(8), id="8 ranks on the CPU"),
        pytest.param(on_gpus(1), id="one GPU"),
        pytest.param(on_gpus(2), id="two GPUs"),
        pytest.param(on_gpus(16), id="two hosts have a cuda:0 each"),
        pytest.param({1: rank("cuda:1"), 7: rank("cuda:7")}, id="ranks that told nothing"),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "ranks", "what", "message"),
    [
        pytest.param(
            {0: rank("cpu", ("buffer", "mask", "meta"))},
            (0,),
            "buffer",
            "rank 0 works on cpu, but buffer mask is on meta",
            id="a buffer left on meta, one rank",
        ),
        pytest.param(
            on_gpus(2) | {1: rank("cuda:1", WEIGHT)},
            (1,),
            "parameter",
            "rank 1 works on cuda:1, but parameter head.weight is on cuda:0",
            id="cuda:0 on rank 1",
        ),
        pytest.param(
            on_gpus(8) | {each: rank(f"cuda:{each}", WEIGHT) for each in range(1, 8)},
            (1, 2, 3, 4, 5, 6, 7),
            "parameter",
            "rank 1 works on cuda:1, but parameter head.weight is on cuda:0",
            id="cuda:0 on all but rank 0",
        ),
        pytest.param(
            {0: rank("cuda:0", BUFFER, STATE), 1: rank("cuda:1", STATE)},
            (0, 1),
            "buffer",
            "rank 0 works on cuda:0, but buffer norm.running_mean is on cpu",
            id="the first of the lowest rank is told",
        ),
        pytest.param(
            {5: rank("cuda:5", STATE), 3: rank("cuda:3")},
            (5,),
            "optimizer state",
            "rank 5 works on cuda:5, but optimizer state 0.exp_avg is on cuda:0",
            id="ranks that told nothing",
        ),
    ],
)
def test_a_misplaced_tensor_is_an_error(
    facts: Ranks, ranks: tuple[int, ...], what: str, message: str
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert (finding.ranks, finding.message) == (ranks, message)
    assert finding.title.endswith(f"{what} is not on its rank's device")
    assert "cuda:LOCAL_RANK" in finding.fix


def test_the_evidence_lists_what_each_rank_has_misplaced() -> None:
    (finding,) = judge({0: rank("cuda:0", BUFFER, STATE), 1: rank("cuda:1"), 2: rank("cpu", STATE)})
    evidence = {rank: told for rank, told in finding.evidence.items() if isinstance(told, list)}
    assert list(evidence) == ["0", "2"]
    assert [len(told) for told in evidence.values()] == [2, 1]
    for word in BUFFER:
        assert word in str(evidence["0"][0])
    for word in STATE:
        assert word in str(evidence["0"][1])
        assert word in str(evidence["2"][0])


@pytest.mark.parametrize(
    ("facts", "ranks"),
    [
        pytest.param(
            on_gpus(2) | {1: rank("cuda:1", elsewhere=(OTHERS_GPU,))}, (1,), id="one of two"
        ),
        pytest.param(
            on_gpus(8)
            | {each: rank(f"cuda:{each}", elsewhere=(OTHERS_GPU,)) for each in range(1, 8)},
            (1, 2, 3, 4, 5, 6, 7),
            id="all but rank 0, as torch.load without map_location does",
        ),
    ],
)
def test_a_context_on_another_gpu_is_an_error(facts: Ranks, ranks: tuple[int, ...]) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == ranks
    assert finding.title == "a rank holds a context on another GPU"
    assert finding.message == (f"rank 1 works on cuda:1 and also holds memory on {OTHERS_GPU}")
    assert "torch.cuda.set_device(LOCAL_RANK)" in finding.fix


def test_tensors_and_contexts_are_two_findings_each_with_its_own_ranks() -> None:
    facts = on_gpus(4)
    facts |= {1: rank("cuda:1", WEIGHT), 2: rank("cuda:2", elsewhere=("GPU-a", "GPU-b"))}
    tensor, context = judge(facts)
    assert (tensor.ranks, context.ranks) == ((1,), (2,))
    assert context.message.endswith("also holds memory on GPU-a, GPU-b")


def test_summary_tells_how_much_was_looked_at() -> None:
    assert summarize(on_gpus(2)) == "120 tensors of the training are on their rank's device"


def test_summary_does_not_contradict_the_finding() -> None:
    facts = {0: rank("cuda:0", BUFFER), 1: rank("cuda:1", WEIGHT)}
    assert summarize(facts) != "120 tensors of the training are on their rank's device"
