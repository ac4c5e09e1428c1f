"""The lines are from logs in public reports, of NCCL 2.4 to 2.28, with other host names."""

import pytest

from ddpcheck.machine.nccl_log import Path, Transport, read_log, transport_of

ONE_HOST = """\
node0:4015540:4015653 [1] NCCL INFO Channel 00/0 : 3[1] -> 2[0] via P2P/CUMEM
node0:4015540:4015653 [1] NCCL INFO Channel 01/0 : 3[1] -> 2[0] via P2P/CUMEM
node0:919:1150 [0] NCCL INFO Channel 02/0 : 8[0] -> 15[7] via P2P/IPC/read
node0:13572:13572 [1] NCCL INFO Channel 01 : 2[1] -> 0[0] via SHM/direct/direct
"""
TWO_HOSTS = """\
node0:4015539:4015652 [0] NCCL INFO Using network IB
node0:4015539:4015652 [0] NCCL INFO Channel 07/0 : 0[0] -> 2[0] [receive] via NET/IB/3/GDRDMA
node0:4015540:4015653 [1] NCCL INFO Channel 07/0 : 3[1] -> 1[1] [send] via NET/IB/2(4)/GDRDMA/Shared
node0:926:1151 [7] NCCL INFO Channel 03/0 : 15[7] -> 6[6] [send] via NET/Socket/3
node0:987:1347 [7] NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.
node0:124172:124172 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to en
node0:5:9 [0] transport/net_ib.cc:295 NCCL WARN NET/IB : No IP interface found.
"""


def test_paths_within_a_host_come_once() -> None:
    assert read_log(ONE_HOST).paths == (
        Path(3, 2, Transport.P2P, "P2P/CUMEM"),
        Path(8, 15, Transport.P2P, "P2P/IPC/read"),
        Path(2, 0, Transport.SHM, "SHM/direct/direct"),
    )


def test_paths_between_hosts() -> None:
    log = read_log(TWO_HOSTS)
    assert log.paths == (
        Path(0, 2, Transport.NET_RDMA_DIRECT, "NET/IB/GDRDMA"),
        Path(3, 1, Transport.NET_RDMA_DIRECT, "NET/IB/GDRDMA/Shared"),
        Path(15, 6, Transport.NET_SOCKET, "NET/Socket"),
    )
    assert log.network == "IB"


def test_what_other_groups_log_is_left_out() -> None:
    split = "node0:1:1 [0] NCCL INFO ncclCommSplit comm 0x1 rank 0 nranks 2 - Init START\n"
    log = read_log(ONE_HOST + split + TWO_HOSTS)
    assert log == read_log(ONE_HOST)


def test_variables_and_warnings() -> None:
    log = read_log(TWO_HOSTS)
    assert log.variables == {"NCCL_IB_GID_INDEX": "3", "NCCL_SOCKET_IFNAME": "en"}
    assert log.warnings == ("NET/IB : No IP interface found.",)


@pytest.mark.parametrize(
    ("words", "transport"),
    [
        ("P2P/direct pointer", Transport.P2P),
        ("P2P/indirect/4[4]", Transport.P2P),
        ("SHM", Transport.SHM),
        ("NET/IB/0", Transport.NET_RDMA),
        ("NET/IBext_v8/0/GDRDMA", Transport.NET_RDMA_DIRECT),
        ("NET/IB/0/GDRDMA(PCI)", Transport.NET_RDMA_DIRECT),
        ("NET/Socket/0", Transport.NET_SOCKET),
        ("NET/AWS Libfabric/0/GDRDMA", Transport.NET_PLUGIN),
        ("COLLNET/SHARP", Transport.OTHER),
    ],
)
def test_transports(words: str, transport: Transport) -> None:
    assert transport_of(words) is transport


@pytest.mark.parametrize("text", ["", "no log", "NCCL version 2.28.9+cuda13.0"])
def test_nothing_in_it_is_nothing_known(text: str) -> None:
    log = read_log(text)
    assert (log.paths, log.network, log.variables, log.warnings) == ((), "", {}, ())
