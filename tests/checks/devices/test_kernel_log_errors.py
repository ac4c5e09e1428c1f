import pytest
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices import kernel_log_errors
from ddpcheck.checks.devices.kernel_log_errors import HARDWARE, Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.gpu import Gpu
from ddpcheck.machine.kernel_log import Xid
from ddpcheck.machine.places import shared_place

DAY_S = 24 * 3600.0


def pci(index: int) -> str:
    return f"0000:{index:02x}:00.0"


def xid(code: int, index: int = 1, age_s: float = 60.0, text: str = "") -> Xid:
    return Xid(pci(index), code, 2, age_s, text)


def host(
    *found: Xid, ranks: int = 8, name: str = "node0", place: str = "", first: int = 0
) -> dict[int, Facts]:
    """Return the ranks of a host, each on its GPU, that share one log."""
    return {first + local: Facts(name, place or name, pci(local), found) for local in range(ranks)}


@pytest.mark.parametrize("code", [8, 11, 13, 31, 32, 43, 45, 68, 69, 154, 155, 999])
def test_what_programs_cause_is_silent(code: int) -> None:
    assert judge(host(xid(code))) == []


@pytest.mark.parametrize("ranks", [1, 8])
def test_an_empty_log_is_silent(ranks: int) -> None:
    assert judge(host(ranks=ranks)) == []


@pytest.mark.parametrize("code", sorted(HARDWARE))
def test_hardware_errors_of_a_rank_are_a_warning(code: int) -> None:
    (finding,) = judge(host(xid(code)))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
    assert f"node0: GPU 0000:01:00.0 (rank 1): Xid {code}, {HARDWARE[code]}" in finding.message
    assert "2 times, last 60 s ago" in finding.message
    assert "dmesg" in finding.fix


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (xid(63), "row was marked"),
        (xid(94), "contained memory error"),
        (xid(145, text="RLW_REMAP Nonfatal XC0"), "NVLink error"),
        (xid(79, age_s=8 * DAY_S), "last 192 h ago"),
    ],
)
def test_what_is_handled_or_old_is_worth_knowing(found: Xid, told: str) -> None:
    (finding,) = judge(host(found))
    assert (finding.severity, finding.ranks) == (Severity.INFO, (1,))
    assert told in finding.message


def test_an_nvlink_error_is_serious_where_the_driver_says_so() -> None:
    (finding,) = judge(host(xid(149, text="NETIR_LINK_EVT  Fatal   XC0 i0 Link 01")))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
    assert "Xid 149, NVLink error" in finding.message


def test_a_gpu_that_no_rank_uses_is_told_to_the_ranks_of_its_host() -> None:
    (finding,) = judge(host(xid(79, index=5), ranks=2) | host(ranks=2, name="node1", first=2))
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 1))
    assert "not used by this run" in finding.message


def test_a_host_has_one_warning_and_one_remark() -> None:
    found = judge(host(xid(79, 1), xid(74, 2), xid(63, 3), xid(48, 3, age_s=5.0)))
    assert [(each.severity, each.ranks) for each in found] == [
        (Severity.WARNING, (1, 2, 3)),
        (Severity.INFO, (3,)),
    ]
    assert found[0].message.startswith("node0: GPU 0000:03:00.0")


def test_hosts_are_told_apart() -> None:
    facts = host(xid(79)) | host(xid(119, 2), name="node1", first=8)
    assert [each.ranks for each in judge(facts)] == [(1,), (10,)]


def test_hosts_of_one_name_have_each_their_log() -> None:
    facts = host(xid(79), name="node", place="a") | host(name="node", place="b", first=8)
    assert [each.ranks for each in judge(facts)] == [(1,)]
    assert summarize(facts).endswith("of 2 hosts")


def test_summary_names_what_was_seen() -> None:
    assert summarize(host(xid(31), xid(13))) == "Xid 13, 31 in the kernel logs of 1 host"
    assert summarize(host() | host(name="node1", first=8)) == "no Xid in the kernel logs of 2 hosts"


def test_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log_errors, "gpu_of", {"cuda:1": Gpu("GPU-1", pci=pci(1))}.get)
    monkeypatch.setattr(kernel_log_errors, "xids", lambda: (xid(79),))
    assert probe(context_with(device="cuda:1")) == Facts(
        "node0", shared_place("node0"), pci(1), (xid(79),)
    )


def test_without_a_gpu_a_driver_or_a_log_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Skip, match="this run uses no GPU"):
        probe(context_with(device="cpu"))
    monkeypatch.setattr(kernel_log_errors, "gpu_of", always("NVML: Driver Not Loaded"))
    with pytest.raises(Skip, match="Driver Not Loaded"):
        probe(context_with(device="cuda:0"))
    monkeypatch.setattr(kernel_log_errors, "gpu_of", always(Gpu("GPU-1")))
    monkeypatch.setattr(kernel_log_errors, "xids", lambda: "the kernel log cannot be read")
    with pytest.raises(Skip, match="cannot be read"):
        probe(context_with(device="cuda:0"))
