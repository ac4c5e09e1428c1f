import pytest
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices import narrow_pcie_link
from ddpcheck.checks.devices.narrow_pcie_link import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.gpu import Gpu
from ddpcheck.machine.pci import Port

H100 = "NVIDIA H100 PCIe"
LAPTOP = "NVIDIA GeForce RTX 4070 Laptop GPU"


def path(*widths: tuple[int | None, int | None]) -> tuple[Port, ...]:
    return tuple(Port(f"p{n}", width, most, None) for n, (width, most) in enumerate(widths))


WHOLE = path((16, 16), (16, 16), (16, 16), (16, 16))


def gpu(
    width: int | None = 16,
    most: int | None = 16,
    way: tuple[Port, ...] = WHOLE,
    name: str = H100,
    virtual: bool = False,
) -> Facts:
    return Facts("node0", "0000:17:00.0", name, width, most, way, virtual)


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(gpu(), id="16 lanes"),
        pytest.param(gpu(8, 8, path((8, 16), (8, 8))), id="all in slots of 8 lanes"),
        pytest.param(gpu(8, 8, path((8, 8), (8, 16))), id="a card of 8 lanes"),
        pytest.param(gpu(16, 16, ()), id="no tree"),
        pytest.param(gpu(None, None), id="only the kernel tells"),
        pytest.param(gpu(16, 16, path((16, 16), (1, 32)), virtual=True), id="made-up bridges"),
        pytest.param(gpu(16, 16, path((None, None), (None, None))), id="widths unknown"),
        pytest.param(
            gpu(16, 16, path((16, 16), (16, 16), (8, 8), (8, 16))), id="a switch with 8 lanes up"
        ),
    ],
)
@pytest.mark.parametrize("world", [1, 8])
def test_silent(own: Facts, world: int) -> None:
    assert judge(dict.fromkeys(range(world), own)) == []


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (gpu(8), "rank 1 (node0, GPU 0000:17:00.0): x8 of x16"),
        (gpu(None, None, path((4, 16), (4, 16))), "x4 of x16 between p0 and p1"),
        (
            gpu(16, 16, path((16, 16), (16, 16), (8, 16), (8, 16))),
            "x8 of x16 between p2 and p3",
        ),
        (gpu(8, virtual=True), "x8 of x16"),
    ],
)
def test_lost_lanes_are_a_warning(own: Facts, told: str) -> None:
    (finding,) = judge({0: gpu(), 1: own, 2: gpu()})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
    assert told in finding.message
    assert "reseat" in finding.fix


@pytest.mark.parametrize("own", [gpu(8, name=LAPTOP), gpu(1, virtual=True)])
def test_what_is_wired_or_virtualized_so_is_worth_knowing(own: Facts) -> None:
    (finding,) = judge({0: own, 1: own})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 1))


def test_a_slot_narrower_than_others_is_worth_knowing() -> None:
    (finding,) = judge({0: gpu(), 1: gpu(8, 8, path((8, 16), (8, 8)))})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (1,))
    assert "x8, others have x16" in finding.message


def test_another_model_is_no_measure() -> None:
    assert judge({0: gpu(), 1: gpu(8, 8, (), name="NVIDIA L4")}) == []


def test_many_gpus_are_one_finding() -> None:
    (finding,) = judge(dict.fromkeys(range(1000), gpu(8)))
    assert len(finding.ranks) == 1000
    assert finding.message.endswith("; and 992 more")


def test_summary() -> None:
    assert summarize({0: gpu(), 1: gpu(8)}) == "links of x8, x16"
    assert summarize({0: gpu(None, None, ())}) == ""


def test_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Gpu("GPU-1", name=H100, pci="0000:17:00.0", pcie_width=8, pcie_max_width=16)
    monkeypatch.setattr(narrow_pcie_link, "gpu_of", {"cuda:1": own}.get)
    monkeypatch.setattr(narrow_pcie_link, "path_of", {"0000:17:00.0": WHOLE}.get)
    monkeypatch.setattr(narrow_pcie_link, "is_virtual_machine", lambda: False)
    assert probe(context_with(device="cuda:1")) == gpu(8)


@pytest.mark.parametrize(
    ("device", "gpu_or_reason", "reason"),
    [
        ("cpu", "", "this run uses no GPU"),
        ("cuda:0", "NVML: Driver Not Loaded", "Driver Not Loaded"),
        ("cuda:0", Gpu("GPU-1", pci="0000:17:00.0"), "neither"),
    ],
)
def test_what_cannot_be_measured_is_skipped(
    device: str, gpu_or_reason: Gpu | str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrow_pcie_link, "gpu_of", always(gpu_or_reason))
    monkeypatch.setattr(narrow_pcie_link, "path_of", always(()))
    with pytest.raises(Skip, match=reason):
        probe(context_with(device=device))
