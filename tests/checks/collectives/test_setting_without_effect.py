import pytest
from contexts import context_with

from ddpcheck.check import Joining, Skip
from ddpcheck.checks.collectives.setting_without_effect import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.nccl_log import Log, Path, read_log, transport_of

# As NCCL v2.30.7 writes it: src/misc/param.cc, src/transport/net_socket.cc, src/init.cc.
READ = """\
node0:1:1 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.
node0:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
node0:1:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
node0:1:9 [0] NCCL INFO Using network Socket
node0:1:9 [0] NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels
"""


def ranks(words: str = "P2P/CUMEM", network: str = "", **settings: str) -> dict[int, Facts]:
    """Return two ranks with these settings whose paths go that way."""
    paths = (Path(0, 1, transport_of(words), words), Path(1, 0, transport_of(words), words))
    told = {name: value for name, value in settings.items() if name.startswith("NCCL")}
    log = Log(
        paths=paths,
        network=network,
        channels_count=24,
        nvls_channels_count=int(settings.get("nvls_channels", 0)),
        variables={"NCCL_IB_TIMEOUT": "22"},
    )
    return {rank: Facts("node0", told, log) for rank in range(2)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(), id="nothing is set"),
        pytest.param(ranks("SHM/direct", NCCL_P2P_DISABLE="1"), id="no peer-to-peer, as asked"),
        pytest.param(ranks(NCCL_P2P_DISABLE="0"), id="a switch that is off"),
        pytest.param(ranks(NCCL_P2P_DISABLE="2"), id="only 1 switches it off"),
        pytest.param(ranks(NCCL_SHM_DISABLE="1"), id="no shared memory, as asked"),
        pytest.param(ranks("NET/Socket", "Socket", NCCL_IB_DISABLE="1"), id="sockets, as asked"),
        pytest.param(ranks("NET/Socket", "Socket", NCCL_NET="socket"), id="the network asked for"),
        pytest.param(ranks("NET/Libfabric", "AWS", NCCL_NET="OFI"), id="a plug-in's other name"),
        pytest.param(ranks(NCCL_MAX_NCHANNELS="32"), id="fewer channels than allowed"),
        pytest.param(ranks(NCCL_MAX_NCHANNELS="4", NCCL_MIN_NCHANNELS="24"), id="a clash"),
        pytest.param(ranks(NCCL_MAX_NCHANNELS="4", NCCL_MIN_CTAS="24"), id="a newer name of it"),
        pytest.param(ranks(NCCL_MAX_NCHANNELS="4", nvls_channels="24"), id="those of NVLS"),
        pytest.param(ranks("P2P/MNNVL", NCCL_P2P_DISABLE="1"), id="NVLink between hosts"),
        pytest.param(
            ranks(NCCL_P2P_DISABLE="1", NCCL_MULTI_RANK_GPU_ENABLE="1"), id="ranks share a GPU"
        ),
        pytest.param(ranks(NCCL_IB_TIMEOUT="0x16"), id="the same number, written otherwise"),
        pytest.param(ranks(NCCL_IB_SL="3"), id="read only where it matters"),
    ],
)
def test_a_setting_that_had_its_effect_is_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (
            ranks(NCCL_P2P_DISABLE="1"),
            "NCCL_P2P_DISABLE=1, and data goes via P2P/CUMEM",
        ),
        (ranks("SHM/direct", NCCL_SHM_DISABLE="1"), "via SHM/direct"),
        (ranks("NET/IB/GDRDMA", "IB", NCCL_IB_DISABLE="1"), "via NET/IB/GDRDMA"),
        (ranks("NET/Socket", "Socket", NCCL_NET="IB"), "NCCL_NET=IB, and NCCL uses Socket"),
        (ranks(NCCL_MAX_NCHANNELS="4"), "NCCL_MAX_NCHANNELS=4, and NCCL uses 24 channels"),
        (ranks(NCCL_IB_TIMEOUT="18"), "NCCL_IB_TIMEOUT=18, and NCCL read 22"),
    ],
)
def test_what_speaks_against_a_setting_is_told(facts: dict[int, Facts], told: str) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert told in finding.message


def test_ranks_with_other_settings_have_findings_of_their_own() -> None:
    facts = {0: ranks(NCCL_MAX_NCHANNELS="4")[0], 1: ranks()[1], 2: ranks(NCCL_NET="IB")[0]}
    assert [finding.ranks for finding in judge(facts)] == [(0,)]


def test_summary_says_of_what_nccl_says_nothing() -> None:
    settings = {"NCCL_IB_TIMEOUT": "22", "NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_SL": "3"}
    told = summarize({0: Facts("node0", settings, read_log(READ))})
    assert told == "NCCL read 2 of 3 variables; it says nothing of NCCL_IB_SL"
    assert summarize(ranks()) == "no variable of NCCL is set"


def test_what_is_read_of_a_log() -> None:
    log = read_log(READ)
    assert (log.interfaces, log.channels_count, log.network) == (("eth0",), 24, "Socket")


def test_a_run_on_cpus_is_skipped() -> None:
    with pytest.raises(Skip, match="no GPU"):
        probe(context_with(joining=Joining("gloo", 0.1)))
