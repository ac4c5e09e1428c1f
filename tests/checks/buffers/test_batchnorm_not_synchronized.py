import math
import random

import msgspec
import pytest

from ddpcheck.checks.buffers.batchnorm_not_synchronized import Facts, judge, recommend, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.batchnorm import Layer

Ranks = dict[int, Facts]

CHANNELS = 16
PLAIN = Layer(
    name="features.1",
    kind="torch.nn.modules.batchnorm.BatchNorm2d",
    synchronized=False,
    custom=False,
    samples=32,
    values=32 * 64,
    means=(0.0,) * CHANNELS,
    variances=(1.0,) * CHANNELS,
)
SYNCED = msgspec.structs.replace(
    PLAIN, name="features.2", kind="torch.nn.modules.batchnorm.SyncBatchNorm", synchronized=True
)
NEVER_RUN = msgspec.structs.replace(
    PLAIN, name="frozen", samples=0, values=0, means=(), variances=()
)
CUSTOM = msgspec.structs.replace(PLAIN, name="own", kind="layers.FastNorm", custom=True)


def layer(samples: int = 32, mean: float = 0.0, base: Layer = PLAIN) -> Layer:
    return msgspec.structs.replace(base, samples=samples, means=(mean,) * CHANNELS)


def ranks(world: int, *layers: Layer, device: str = "cuda") -> Ranks:
    return {rank: Facts(device, layers) for rank in range(world)}


def but(facts: Ranks, odd: int, *layers: Layer) -> Ranks:
    return facts | {odd: Facts(facts[odd].device, layers)}


def alike(world: int, samples: int, seed: int = 0) -> Ranks:
    """Return ranks that draw independent samples of one normal distribution."""
    draw = random.Random(seed)
    deviation = 1 / math.sqrt(samples)
    return {
        rank: Facts(
            "cuda",
            (
                msgspec.structs.replace(
                    layer(samples),
                    means=tuple(draw.gauss(0, deviation) for _ in range(CHANNELS)),
                ),
            ),
        )
        for rank in range(world)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(2), id="no such layer"),
        pytest.param(ranks(1, layer(2)), id="one rank, however small its batch"),
        pytest.param(ranks(2, SYNCED), id="synchronized"),
        pytest.param(ranks(8, layer(1, base=SYNCED)), id="synchronized, one sample a rank"),
        pytest.param(ranks(2, NEVER_RUN), id="frozen on both ranks"),
        pytest.param(
            but(ranks(2, layer(4, base=SYNCED)), 1, layer(4, 3.0, SYNCED)),
            id="synchronized, other data",
        ),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(2, PLAIN), id="two ranks"),
        pytest.param(ranks(8, PLAIN), id="eight ranks"),
        pytest.param(ranks(2, PLAIN, device="cpu"), id="on the CPU"),
        pytest.param(ranks(2, layer(8)), id="as many samples as it needs"),
        pytest.param(but(ranks(2, layer(64)), 1, layer(64, 0.49)), id="noise of 64 samples"),
        pytest.param(but(ranks(2, layer(10_000)), 1, layer(10_000, 0.09)), id="a little off"),
        pytest.param({2: Facts("cuda", (PLAIN,)), 5: Facts("cuda", (PLAIN,))}, id="two told"),
        pytest.param(ranks(2, PLAIN, SYNCED), id="one of two layers is converted"),
    ],
)
def test_plain_layers_alone_are_information(facts: Ranks) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.MEDIUM)
    assert finding.title == "BatchNorm is not synchronized"
    assert finding.ranks == tuple(sorted(facts))


@pytest.mark.parametrize(
    "world",
    [
        2,
        8,
        pytest.param(64),
        pytest.param(512),
    ],
)
@pytest.mark.parametrize("samples", [8, 32, 128])
def test_ranks_that_see_the_same_distribution_are_no_warning(world: int, samples: int) -> None:
    for seed in range(10):
        (finding,) = judge(alike(world, samples, seed))
        assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("facts", "small"),
    [
        pytest.param(ranks(2, layer(2)), (0, 1), id="two samples on both ranks"),
        pytest.param(ranks(2, layer(7)), (0, 1), id="one too few"),
        pytest.param(but(ranks(2, PLAIN), 1, layer(3)), (1,), id="on rank 1 alone"),
        pytest.param(but(ranks(8, PLAIN), 0, layer(3)), (0,), id="on rank 0 of eight"),
        pytest.param(ranks(2, PLAIN, layer(4, base=CUSTOM)), (0, 1), id="in one layer of two"),
        pytest.param({3: Facts("cuda", (PLAIN,)), 6: Facts("cuda", (layer(1),))}, (6,), id="told"),
    ],
)
def test_few_samples_are_a_warning_on_the_ranks_that_have_them(
    facts: Ranks, small: tuple[int, ...]
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert finding.title == "BatchNorm sees too few samples a rank"
    assert finding.ranks == small


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(but(ranks(2, layer(64)), 1, layer(64, 0.6)), id="just beyond noise"),
        pytest.param(but(ranks(2, layer(10_000)), 1, layer(10_000, 0.11)), id="a tenth"),
        pytest.param(but(ranks(8, PLAIN), 5, layer(32, 3.0)), id="one of eight"),
        pytest.param(but(ranks(2, PLAIN), 0, layer(32, 3.4e38)), id="infinite on one"),
        pytest.param(
            but(ranks(2, PLAIN, CUSTOM), 1, PLAIN, layer(32, -2.0, CUSTOM)), id="the second layer"
        ),
        pytest.param(
            {2: Facts("cpu", (PLAIN,)), 7: Facts("cpu", (layer(32, 2.0),))}, id="ranks told nothing"
        ),
    ],
)
def test_ranks_that_see_other_data_are_a_warning(facts: Ranks) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert "statistics differ" in finding.title
    assert finding.ranks == tuple(sorted(facts))


def test_the_message_tells_what_was_measured() -> None:
    facts = but(ranks(4, layer(64), CUSTOM), 3, layer(64, 1.25), CUSTOM)
    (finding,) = judge(facts)
    assert finding.message == (
        "2 layers, first features.1; 32 samples a rank (small below 8); "
        "means of features.1 differ by 1.25 deviations between ranks (limit 0.67)"
    )
    assert finding.evidence == {"layers": ["features.1", "own"], "custom": ["layers.FastNorm"]}


def test_the_message_tells_the_limit_that_counted() -> None:
    (finding,) = judge(but(ranks(2, layer(10_000)), 1, layer(10_000, 0.09)))
    assert finding.message.endswith("(limit 0.10)")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(ranks(2, PLAIN), "convert_sync_batchnorm(model)", id="on GPUs"),
        pytest.param(ranks(2, PLAIN, device="cpu"), "larger batch a rank or GroupNorm", id="CPU"),
        pytest.param(ranks(2, CUSTOM), "layers.FastNorm", id="custom"),
    ],
)
def test_the_fix_fits_the_device_and_the_layers(facts: Ranks, words: str) -> None:
    (finding,) = judge(facts)
    assert words in finding.fix


@pytest.mark.parametrize("world", [1, 2, 8])
def test_sync_batchnorm_on_the_cpu_is_an_error(world: int) -> None:
    (finding,) = judge(ranks(world, SYNCED, SYNCED, device="cpu"))
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == tuple(range(world))
    assert finding.message.startswith("2 layers are SyncBatchNorm, first features.2")


def test_both_kinds_on_the_cpu_are_two_findings() -> None:
    error, warning = judge(ranks(2, SYNCED, layer(2), device="cpu"))
    assert (error.severity, warning.severity) == (Severity.ERROR, Severity.WARNING)


def test_a_frozen_layer_does_not_make_the_batch_small() -> None:
    (finding,) = judge(ranks(2, NEVER_RUN, PLAIN))
    assert finding.severity is Severity.INFO


def test_a_synchronized_layer_does_not_make_the_batch_small() -> None:
    (finding,) = judge(ranks(2, layer(2, base=SYNCED), PLAIN))
    assert finding.severity is Severity.INFO


def test_a_layer_that_did_not_run_on_the_lowest_rank_still_counts() -> None:
    assert judge(but(ranks(4, layer(2)), 0, NEVER_RUN)) != []


def test_a_rank_whose_layer_did_not_run_hides_no_drift() -> None:
    never = msgspec.structs.replace(NEVER_RUN, name=PLAIN.name)
    (finding,) = judge(
        but(but(ranks(3, PLAIN, CUSTOM), 1, layer(32, 5.0), CUSTOM), 2, never, CUSTOM)
    )
    assert "statistics differ" in finding.title


@pytest.mark.parametrize(
    "layers",
    [
        pytest.param((), id="no such layer on one rank"),
        pytest.param((msgspec.structs.replace(NEVER_RUN, name=PLAIN.name),), id="did not run"),
    ],
)
def test_a_rank_that_saw_no_batch_did_not_see_a_small_one(layers: tuple[Layer, ...]) -> None:
    (finding,) = judge(but(ranks(4, PLAIN), 3, *layers))
    assert finding.severity is Severity.INFO


def test_summary() -> None:
    assert summarize(ranks(2)) == "the target has no BatchNorm layer"
    assert summarize(ranks(8, PLAIN, SYNCED)) == "2 BatchNorm layers, 1 of them SyncBatchNorm"


@pytest.mark.parametrize(
    ("facts", "wanted", "words"),
    [
        pytest.param(ranks(2), False, "no BatchNorm layer", id="no such layer"),
        pytest.param(ranks(2, layer(8)), False, "8 samples", id="enough samples"),
        pytest.param(ranks(2, layer(7)), True, "7 samples", id="too few samples"),
        pytest.param(but(ranks(8, PLAIN), 5, layer(2)), True, "2 samples", id="too few on one"),
        pytest.param(ranks(2, layer(2), device="cpu"), False, "not work on the CPU", id="the CPU"),
        pytest.param(ranks(2, layer(2, base=SYNCED)), True, "2 samples", id="it is in use already"),
        pytest.param(
            ranks(2, NEVER_RUN, PLAIN),
            False,
            "32 samples",
            id="frozen layers do not count",
        ),
        pytest.param(
            ranks(2, NEVER_RUN),
            False,
            "",
            id="all layers are frozen",
        ),
        pytest.param(
            ranks(1, layer(2)),
            False,
            "one rank",
            id="one rank has none to synchronize with",
        ),
    ],
)
def test_synchronizing_is_recommended_for_small_batches_on_gpus(
    facts: Ranks, wanted: object, words: str
) -> None:
    recommended = recommend(facts)["sync_batchnorm"]
    assert recommended.value is wanted
    assert words in recommended.reason
