"""What stands between made hosts: closed ports, sidecars, large packets that get lost."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from hosts import Host

from ddpcheck.network.roster import ephemeral_ports

PORTS = ephemeral_ports().replace("-", ":")
# What a proxy does with each connection that it accepts on a pod's behalf.
CLOSES = "listener.accept()[0].close()"
HOLDS = "held.append(listener.accept())"
PROXY_PORT = 15006
PROXY = (
    "import socket\n"
    "held = []\n"
    f"listener = socket.create_server(('0.0.0.0', {PROXY_PORT}))\n"
    "print('ready', flush=True)\n"
    "while True: "
)


def block(host: Host, *target: str, chain: str = "INPUT") -> None:
    """Let no connection come in, or go out, to an ephemeral port; those that are there live on."""
    host.iptables("-A", chain, "-p", "tcp", "--dport", PORTS, "--syn", "-j", *target)


def lose_large_packets(host: Host) -> None:
    """Let no packet come in that is longer than most tunnels take."""
    host.iptables("-A", "INPUT", "-p", "tcp", "-m", "length", "--length", "1401:", "-j", "DROP")


@contextmanager
def sidecar(host: Host, does: str = HOLDS, ports: str = PORTS) -> Generator[None]:
    """Let all that comes in for these ports go to a proxy, as a sidecar does."""
    with host.start([sys.executable, "-c", PROXY + does], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        words = ["-i", host.interface, "-p", "tcp", "--dport", ports, "-j", "REDIRECT"]
        host.iptables("-t", "nat", "-A", "PREROUTING", *words, "--to-ports", str(PROXY_PORT))
        yield
        process.kill()
