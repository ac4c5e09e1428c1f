import msgspec
import pytest

from ddpcheck.checks.performance.exposed_communication import Facts, judge, recommend, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.split import Kernels, StepSplit

Ranks = dict[int, Facts]

MIB = 1 << 20
SPLIT = StepSplit(
    data_s=0.001,
    forward_s=0.029,
    backward_s=0.050,
    exposed_comm_s=0.010,
    optimizer_s=0.010,
    step_s=0.100,
    comm_s=0.040,
    steps=5,
)
MOSTLY_WAITING = msgspec.structs.replace(
    SPLIT, forward_s=0.005, backward_s=0.014, exposed_comm_s=0.07
)
# As on two H200: a step that waits for the host, whose kernels of NCCL are seldom alone.
ALL_HIDDEN = Kernels(comm_s=0.012, compute_s=0.02, exposed_comm_s=0.006)
ALL_EXPOSED = Kernels(comm_s=0.08, compute_s=0.02, exposed_comm_s=0.075)


def rank(
    split: StepSplit = SPLIT,
    gradients: int = 3 * MIB,
    workers: int = 0,
    *,
    built_in: bool = False,
    kernels: Kernels | None = None,
    **changed: float,
) -> Facts:
    return Facts(
        split=msgspec.structs.replace(split, **changed),
        kernels=kernels,
        gradient_bytes=gradients,
        workers=workers,
        built_in=built_in,
    )


def ranks(world: int, *odd: int, fact: Facts | None = None) -> Ranks:
    return {each: fact if fact and each in odd else rank() for each in range(world)}


def scaled(split: StepSplit, times: float) -> StepSplit:
    """Return the split of a step that is ``times`` as long."""
    told = msgspec.structs.asdict(split)
    seconds = {name: times * told[name] for name in told if name not in {"steps", "steps_s"}}
    return msgspec.structs.replace(split, **seconds, steps_s=())


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1), id="one rank"),
        pytest.param(ranks(2), id="two ranks"),
        pytest.param(ranks(8), id="eight ranks"),
        pytest.param({2: rank(), 7: rank()}, id="ranks that told nothing"),
        pytest.param(ranks(2, 1, fact=rank(step_s=0.104)), id="4 % are missed"),
        pytest.param(ranks(2, 1, fact=rank(step_s=0.0962)), id="4 % too much"),
        pytest.param(
            ranks(2, 1, fact=rank(scaled(SPLIT, 0.01), step_s=0.0019)), id="the marks themselves"
        ),
        pytest.param(
            {each: rank(MOSTLY_WAITING, built_in=True) for each in range(2)},
            id="a small target hides nothing",
        ),
        pytest.param(
            ranks(2, 0, 1, fact=rank(exposed_comm_s=0.05, forward_s=0.0, backward_s=0.039)),
            id="half of the step",
        ),
        pytest.param(
            ranks(2, 0, 1, fact=rank(MOSTLY_WAITING, kernels=ALL_HIDDEN)),
            id="the calls take the host long, and kernels of NCCL run beside others",
        ),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "bad", "missed"),
    [
        pytest.param(ranks(1, 0, fact=rank(step_s=0.125)), (0,), "20%", id="the only rank"),
        pytest.param(ranks(2, 1, fact=rank(step_s=0.08)), (1,), "25%", id="too much on one of two"),
        pytest.param(ranks(8, 2, 5, fact=rank(step_s=0.2)), (2, 5), "50%", id="two of eight"),
        pytest.param({7: rank(step_s=0.2), 3: rank()}, (7,), "50%", id="ranks that told nothing"),
        pytest.param(
            ranks(2) | {0: rank(step_s=0.11), 1: rank(step_s=0.2)}, (0, 1), "50%", id="the worst"
        ),
        pytest.param(
            ranks(1, 0, fact=rank(step_s=0.125, built_in=True)), (0,), "20%", id="built in as well"
        ),
    ],
)
def test_parts_that_do_not_add_up_are_a_warning(
    facts: Ranks, bad: tuple[int, ...], missed: str
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.MEDIUM)
    assert finding.ranks == bad
    assert finding.message == f"they miss {missed} of it, limit 5%"


@pytest.mark.parametrize(
    ("facts", "bad"),
    [
        pytest.param({0: rank(MOSTLY_WAITING)}, (0,), id="the only rank"),
        pytest.param(ranks(2, 1, fact=rank(MOSTLY_WAITING)), (1,), id="one of two"),
        pytest.param(ranks(8, *range(8), fact=rank(MOSTLY_WAITING)), tuple(range(8)), id="all"),
        pytest.param({9: rank(MOSTLY_WAITING), 4: rank()}, (9,), id="ranks that told nothing"),
        pytest.param({0: rank(MOSTLY_WAITING, kernels=ALL_EXPOSED)}, (0,), id="kernels say so too"),
    ],
)
def test_a_users_step_that_mostly_waits_is_information(facts: Ranks, bad: tuple[int, ...]) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.MEDIUM)
    assert (finding.ranks, finding.message) == (bad, "70% of the step, limit 50%")


def test_both_are_two_findings() -> None:
    wrong, waiting = judge({0: rank(step_s=0.2), 1: rank(MOSTLY_WAITING)})
    assert (wrong.ranks, waiting.ranks) == ((0,), (1,))


def test_summary_is_the_slowest_ranks_step() -> None:
    facts = ranks(8) | {5: rank(scaled(SPLIT, 2.0))}
    assert summarize(facts) == (
        "step 200.0 ms: data 1%, forward 29%, backward 50%, exposed comm 10%, optimizer 10%; "
        "75% of comm hidden"
    )


def test_summary_tells_of_kernels_where_they_were_measured() -> None:
    slow = rank(
        scaled(SPLIT, 2.0), kernels=Kernels(comm_s=0.012, compute_s=0.1, exposed_comm_s=0.004)
    )
    assert summarize(ranks(2) | {1: slow}).endswith(
        "; NCCL kernels 12.00 ms, 4.00 ms with no compute beside"
    )


@pytest.mark.parametrize("call", [summarize, recommend])
def test_a_clock_that_stands_still_is_no_crash(call: object) -> None:
    assert callable(call)
    call({0: rank(scaled(SPLIT, 0.0))})


@pytest.mark.parametrize(
    ("gradients", "cap", "words"),
    [
        pytest.param(0, 1, "0.0 MiB", id="no gradients"),
        pytest.param(3 * MIB, 1, "3.0 MiB of gradients would fit one bucket", id="a small model"),
        pytest.param(8 * MIB, 2, "8.0 MiB", id="four buckets of 2 MiB"),
        pytest.param(100 * MIB - 1, 24, "nothing would overlap", id="just too small"),
        pytest.param(100 * MIB, 25, "100 MiB of gradients fill several buckets", id="DDP's own"),
        pytest.param(40_000 * MIB, 25, "40000 MiB", id="a large model"),
    ],
)
def test_the_bucket_lets_gradients_of_any_size_overlap(
    gradients: int, cap: int, words: str
) -> None:
    bucket = recommend(ranks(2, 0, 1, fact=rank(gradients=gradients)))["bucket_cap_mb"]
    assert bucket.value == cap
    assert words in bucket.reason


@pytest.mark.parametrize(
    ("data_s", "workers", "wanted"),
    [
        pytest.param(0.004, 0, 0, id="no wait, no workers"),
        pytest.param(0.004, 3, 3, id="no wait, workers stay"),
        pytest.param(0.006, 0, 2, id="wait, no workers"),
        pytest.param(0.006, 1, 2, id="wait, one worker"),
        pytest.param(0.006, 8, 8, id="wait, many workers"),
    ],
)
def test_workers_are_recommended_where_a_step_waits_for_data(
    data_s: float, workers: int, wanted: int
) -> None:
    facts = ranks(2, 0, 1, fact=rank(workers=workers, data_s=data_s))
    recommended = recommend(facts)["dataloader_workers"]
    assert recommended.value == wanted
    assert (
        recommended.reason
        == f"data wait was {data_s * 1000:.1f}% of the step with {workers} workers"
    )


def test_settings_follow_the_slowest_rank() -> None:
    facts = ranks(8) | {5: rank(scaled(SPLIT, 2.0), 200 * MIB, data_s=0.1)}
    recommended = recommend(facts)
    assert recommended["bucket_cap_mb"].value == 25
    assert recommended["dataloader_workers"].value == 2
    assert recommended["gradient_as_bucket_view"].value is True
    assert "200.0 MiB a rank" in recommended["gradient_as_bucket_view"].reason
