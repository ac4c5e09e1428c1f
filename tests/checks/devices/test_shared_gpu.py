import msgspec
import pytest

from ddpcheck.checks.devices.shared_gpu import Facts, judge, recommend, summarize
from ddpcheck.finding import Confidence, Severity

H100 = "NVIDIA H100 80GB HBM3"
H100_BYTES = 85_017_493_504
UUID = "GPU-55c016a6-9d7d-046b-9d59-e5f62f91ed26"


def gpu(local_rank: int | None, index: int, host: str = "node0", **changed: object) -> Facts:
    """Return a rank on GPU ``index`` of a host that shows 8 of them."""
    own = Facts(
        host=host,
        local_rank=local_rank,
        device_count=8,
        device=f"cuda:{index}",
        current_device=index,
        uuid=f"GPU-{host}-{index}",
        name=H100,
        memory_bytes=H100_BYTES,
        mask="CUDA_VISIBLE_DEVICES=not set",
    )
    return msgspec.structs.replace(own, **changed)


def healthy(world: int, hosts: int = 1) -> dict[int, Facts]:
    local = world // hosts
    return {rank: gpu(rank % local, rank % local, f"node{rank // local}") for rank in range(world)}


def crowded(ranks: int, count: int) -> dict[int, Facts]:
    """Return more ranks than GPUs, as the engine places them."""
    return {r: gpu(r, r % count, device_count=count) for r in range(ranks)}


def masked(ranks: int, count: int) -> dict[int, Facts]:
    """Return ranks that are each shown GPUs of their own."""
    return {
        r: gpu(r, r % count, device_count=count, uuid=f"GPU-{r}", mask=f"CUDA_VISIBLE_DEVICES={r}")
        for r in range(ranks)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(healthy(1), id="one rank"),
        pytest.param(healthy(2), id="two ranks"),
        pytest.param(healthy(16, hosts=2), id="16 ranks on 2 hosts"),
        pytest.param({0: gpu(None, 0), 1: gpu(None, 1)}, id="by hand without LOCAL_RANK"),
        pytest.param({8: gpu(None, 0), 9: gpu(None, 1)}, id="by hand on the second host"),
        pytest.param(
            {0: gpu(0, 0, uuid="GPU-a"), 1: gpu(0, 0, uuid="GPU-b")},
            id="containers of one host name",
        ),
        pytest.param({0: gpu(1, 0), 1: gpu(0, 1)}, id="devices in another order"),
        pytest.param(
            {0: gpu(0, 0), 1: gpu(1, 1, memory_bytes=H100_BYTES - 2**26)}, id="retired pages"
        ),
        pytest.param({0: gpu(0, 0, device="cuda")}, id="a device without index"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "ranks", "words"),
    [
        pytest.param(
            {0: gpu(0, 0, uuid=UUID), 1: gpu(1, 0, uuid=UUID)},
            (0, 1),
            ["rank 0 (node0, cuda:0)", "rank 1", H100, UUID],
            id="both ranks on cuda:0",
        ),
        pytest.param(
            healthy(4) | {3: gpu(3, 2)}, (2, 3), ["GPU-node0-2"], id="two of four ranks on one GPU"
        ),
        pytest.param(
            {0: gpu(0, 0, "pod0", uuid=UUID), 1: gpu(0, 0, "pod1", uuid=UUID)},
            (0, 1),
            ["pod0", "pod1"],
            id="two containers share a GPU",
        ),
        pytest.param(
            crowded(4, 2),
            (2, 3),
            ["4 ranks", "node0", "2 GPU", "local rank 2, 3"],
            id="4 ranks, 2 GPUs",
        ),
        pytest.param(crowded(2, 1), (1,), ["2 ranks", "1 GPU"], id="2 ranks, 1 GPU"),
        pytest.param(
            {0: gpu(2, 0, device_count=2), 1: gpu(3, 1, device_count=2)},
            (0, 1),
            ["local rank 2, 3"],
            id="LOCAL_RANK counts over all hosts",
        ),
        pytest.param(
            healthy(2) | {1: gpu(1, 1, current_device=0)},
            (1,),
            ["cuda:0", "cuda:1"],
            id="another current device",
        ),
    ],
)
def test_error_is_one_finding_that_names_the_ranks(
    facts: dict[int, Facts], ranks: tuple[int, ...], words: list[str]
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == ranks
    assert [word for word in words if word not in finding.message] == []


@pytest.mark.parametrize(
    ("facts", "ranks"),
    [
        pytest.param(masked(2, 1), (1,), id="one visible GPU a rank"),
        pytest.param(masked(4, 2), (2, 3), id="two visible GPUs a rank"),
        pytest.param({0: gpu(1, 0, device_count=1)}, (0,), id="the only rank of a host"),
        pytest.param(
            healthy(3) | {1: gpu(1, 1, name="NVIDIA H100 PCIe")}, (1,), id="another model"
        ),
        pytest.param(
            healthy(3) | {2: gpu(2, 2, memory_bytes=H100_BYTES // 2)}, (2,), id="half the memory"
        ),
        pytest.param(healthy(2) | {1: gpu(1, 1, name="NVIDIA A100")}, (0, 1), id="two models"),
        pytest.param(
            {r: gpu(r, r, uuid=UUID, name="NVIDIA A100 MIG 3g.20gb") for r in range(2)},
            (0, 1),
            id="slices of one GPU",
        ),
    ],
)
def test_what_may_be_meant_is_a_warning(facts: dict[int, Facts], ranks: tuple[int, ...]) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.ranks == ranks


def test_summary() -> None:
    assert summarize(healthy(2)) == f"2 GPUs, one a rank: {H100}"
    assert summarize(crowded(2, 1)) == f"1 GPU, for 2 ranks: {H100}"


def test_the_gpu_is_recommended_unless_it_is_shared() -> None:
    assert recommend(healthy(2))["device"].value == "cuda"
    assert recommend(crowded(2, 1)) == {}


class Counted(str):
    """A text that counts how often any is compared with another."""

    __slots__ = ()
    comparisons_count = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons_count += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_the_time_grows_with_the_ranks_and_not_with_their_square() -> None:
    world = 1000
    facts = {
        rank: msgspec.structs.replace(own, uuid=Counted(own.uuid), host=Counted(own.host))
        for rank, own in healthy(world, 125).items()
    }
    Counted.comparisons_count = 0
    assert judge(facts) == []
    assert Counted.comparisons_count <= 10 * world
