import pytest
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices import nvlink_down
from ddpcheck.checks.devices.nvlink_down import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.gpu import SWITCH, Gpu, Link

H200 = "NVIDIA H200"
CARD = "NVIDIA H100 PCIe"


def gpu(
    up: int = 18,
    of: int = 18,
    host: str = "node0",
    name: str = H200,
    recoveries: dict[str, int] | None = None,
    *,
    machine: str = "",
) -> Facts:
    switched = name == H200 and up > 0
    down = tuple(range(up, of))
    return Facts(host, "0000:17:00.0", name, up, down, switched, recoveries or {}, machine)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: gpu()}, id="one"),
        pytest.param({rank: gpu() for rank in range(8)}, id="a host of eight"),
        pytest.param({0: gpu(8, 8), 1: gpu(8, 8)}, id="two that are wired with fewer"),
        pytest.param(
            {r: gpu(8, host=f"node{r // 8}") for r in range(16)}, id="hosts that all use no more"
        ),
        pytest.param({r: gpu(12, 12, name="NVIDIA A100-SXM4") for r in range(8)}, id="an A100"),
        pytest.param(
            {r: gpu(host=f"node{r}") for r in range(2)} | {2: gpu(0, host="vm")},
            id="a virtual machine with one GPU of a host",
        ),
        pytest.param(
            {0: gpu(18, machine="a"), 1: gpu(0, machine="b")}, id="the same, both of one name"
        ),
        pytest.param({0: gpu(8, 12, name=CARD), 1: gpu(8, 12, name=CARD)}, id="a pair of bridges"),
        pytest.param({0: gpu(0), 1: gpu(0)}, id="none has a link up"),
        pytest.param({0: gpu(), 1: gpu(12, 12, name="NVIDIA A100")}, id="another model"),
        pytest.param(
            {0: gpu(12, 12, name=CARD), 1: gpu(8, 12, name=CARD, host="node1")},
            id="cards that are bridged in another way on another host",
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("up", "told"),
    [(17, "17 of 18 links up; down: 17"), (0, "0 of 18 links up"), (6, "down: 6-17")],
)
def test_fewer_links_than_others_are_a_warning(up: int, told: str) -> None:
    (finding,) = judge({rank: gpu(up if rank == 3 else 18) for rank in range(8)})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (3,))
    assert told in finding.message
    assert "rank 3 (node0, GPU 0000:17:00.0)" in finding.message
    assert "nvidia-fabricmanager" in finding.fix


@pytest.mark.parametrize(
    ("facts", "ranks"),
    [
        pytest.param({r: gpu(16) for r in range(8)}, tuple(range(8)), id="the only host"),
        pytest.param({0: gpu(16)}, (0,), id="one rank"),
        pytest.param(
            {r: gpu(16 if r < 8 else 18, host=f"node{r // 8}") for r in range(512)},
            tuple(range(8)),
            id="one host of many",
        ),
        pytest.param(
            {r: gpu(16 if r == 5 else 18, host=f"node{r}") for r in range(8)}, (5,), id="pods"
        ),
        pytest.param(
            {r: gpu(0 if r < 8 else 18, host=f"node{r // 8}") for r in range(16)},
            tuple(range(8)),
            id="all links of a host",
        ),
        pytest.param(
            {0: gpu(14, 14), 1: gpu(host="node1")}, (0,), id="links that the driver does not show"
        ),
    ],
)
def test_a_switch_that_is_down_takes_links_from_all_gpus_of_its_host(
    facts: dict[int, Facts], ranks: tuple[int, ...]
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.WARNING, ranks)


def test_a_card_without_a_bridge_is_worth_knowing() -> None:
    cards = {0: gpu(12, 12, name=CARD), 1: gpu(12, 12, name=CARD), 2: gpu(0, 12, name=CARD)}
    (finding,) = judge(cards)
    assert (finding.severity, finding.ranks) == (Severity.INFO, (2,))
    assert "bridge" in finding.fix


def test_links_that_had_to_be_trained_again_are_a_warning() -> None:
    (finding,) = judge({0: gpu(), 1: gpu(recoveries={"4": 7, "9": 30})})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
    assert "link 9 30 times, link 4 7 times" in finding.message
    assert "nvlink -e" in finding.fix


def test_many_gpus_are_one_finding() -> None:
    facts = {rank: gpu(18 if rank % 8 else 9, host=f"node{rank // 8}") for rank in range(1000)}
    (finding,) = judge(facts)
    assert len(finding.ranks) == 125
    assert finding.message.endswith("; and 117 more")


def test_summary() -> None:
    assert summarize({0: gpu(), 1: gpu(12)}) == "12 or 18 NVLinks up on each GPU"


def test_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    links = (Link(True, SWITCH, 0), Link(False, "", None), Link(True, SWITCH, 3))
    own = Gpu("GPU-1", name=H200, pci="0000:17:00.0", mig=False, links=links)
    monkeypatch.setattr(nvlink_down, "gpu_of", {"cuda:1": own}.get)
    assert probe(context_with(device="cuda:1")) == Facts(
        "node0", "0000:17:00.0", H200, 2, (1,), True, {"2": 3}
    )


@pytest.mark.parametrize(
    ("device", "gpu_or_reason", "reason"),
    [
        ("cpu", "", "this run uses no GPU"),
        ("cuda:0", "NVML: Driver Not Loaded", "Driver Not Loaded"),
        ("cuda:0", Gpu("GPU-1"), "no NVLink"),
        ("cuda:0", Gpu("GPU-1", mig=True, links=(Link(False, "", None),)), "MIG"),
    ],
)
def test_what_cannot_be_measured_is_skipped(
    device: str, gpu_or_reason: Gpu | str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvlink_down, "gpu_of", always(gpu_or_reason))
    with pytest.raises(Skip, match=reason):
        probe(context_with(device=device))
