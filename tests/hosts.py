"""Several hosts on this one machine: network namespaces, joined by a bridge.

``made_hosts`` makes them, each with interfaces, a host name, an /etc/hosts and firewall rules of
its own; they share processes and files, and have nothing to do with this machine's network.

This needs root, util-linux, iproute2 and iptables (``apt-get install -y iproute2 iptables``).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from namespaces import Namespaces, opened, processes_in, why_not
from real_ranks import HOST, LIMIT_S, Ended, run_by_hand, short

INTERFACE = "eth0"
NETWORK = "10.77.0"
PREFIX_BITS = 24
# Alone in its namespaces nobody else has the port.
PORT = 29500


@dataclass(frozen=True)
class Host(Namespaces):
    """One of the hosts: its name, and the interface that leads to the others."""

    name: str
    address: str
    interface: str
    switch: Namespaces

    def iptables(self, *words: str) -> None:
        """Add a rule to this host's firewall, as ``iptables WORDS`` does."""
        self.run(["iptables", "--wait", *words], check=True)

    def add_interface(self, name: str, address: str = "", kind: str = "bridge") -> None:
        """Add an interface: a ``bridge``, a ``tun``, or a ``veth`` that is one more cable.

        A ``loose`` one is a cable whose other end leads nowhere, with a carrier all the same.

        ``address`` has its prefix length: "172.17.0.1/16". A tun that no program holds open is up
        and has no carrier; a bridge has one, until its last port has gone.
        """
        if kind == "veth":
            _plug(self, name, self.switch)
        elif kind == "loose":
            end = f"{name}-end"
            self.ip("link", "add", name, "type", "veth", "peer", "name", end)
            self.ip("link", "set", end, "addrgenmode", "none", "up")
        elif kind == "tun":
            self.ip("tuntap", "add", "mode", "tun", name)
        else:
            self.ip("link", "add", name, "type", kind)
        if address:
            self.add_address(address, name)
        self.ip("link", "set", name, "up")

    def add_address(self, address: str, interface: str = INTERFACE) -> None:
        """Give an interface one more address, with its prefix length."""
        # Addresses of IPv6 are of no use until nobody has objected, unless told so.
        unchecked = ["nodad"] if ":" in address else []
        self.ip("address", "add", address, "dev", interface, *unchecked)

    def set_etc_hosts(self, text: str) -> None:
        """Let this host's /etc/hosts be this text."""
        (self.folder / "hosts").write_text(text)

    def mount_shared_memory(self, options: str) -> None:
        """Give this host a /dev/shm of its own, of a tmpfs with these options: "size=8m"."""
        self.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", "/dev/shm"], check=True)

    def mount_disk(self, folder: Path) -> None:
        """Give this host a disk of its own, empty, in place of this folder."""
        self.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)

    def processes(self) -> list[psutil.Process]:
        """Return the processes that run on this host, but for the one that holds it open."""
        return [each for each in processes_in(self.pid) if each.pid != self.pid]


@contextmanager
def made_hosts(
    count: int = 2, names: Sequence[str] = (), network: str = NETWORK
) -> Generator[list[Host]]:
    """Make hosts that reach each other, and know each other's names, until the end of the block.

    Their addresses are NETWORK.1, NETWORK.2, ...; the first one's is to be MASTER_ADDR. Skips
    the test where this user or machine cannot make any.
    """
    if reason := why_not():
        pytest.skip(reason)
    names = names or [f"host{index}" for index in range(count)]
    addresses = [f"{network}.{index + 1}" for index in range(count)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hosts")))
        switch = stack.enter_context(opened(folder / "switch", "switch"))
        switch.ip("link", "add", "bridge", "type", "bridge")
        switch.ip("link", "set", "bridge", "up")
        hosts: list[Host] = []
        for name, address in zip(names, addresses, strict=True):
            made = stack.enter_context(opened(folder / f"host{len(hosts)}", name))
            host = Host(
                made.pid, made.folder, name, address, INTERFACE, switch, started=made.started
            )
            _plug(host, INTERFACE, switch)
            host.add_address(f"{address}/{PREFIX_BITS}")
            host.set_etc_hosts(etc_hosts(zip(names, addresses, strict=True)))
            hosts.append(host)
        yield hosts


def etc_hosts(places: Iterable[tuple[str, str]] | Mapping[str, str]) -> str:
    """Return an /etc/hosts with these names and addresses, and localhost."""
    pairs = places.items() if isinstance(places, Mapping) else places
    return "".join(f"{address} {name}\n" for name, address in (("localhost", "127.0.0.1"), *pairs))


def run_ranks(
    report_dir: Path,
    hosts: Sequence[Host],
    *options: str,
    env_per_host: Sequence[Mapping[str, str]] = (),
    ranks_per_host: int = 1,
    **environment: str,
) -> Ended:
    """Run ``ddpcheck run`` on each host, as a launch script does; rank 0 is on the first."""
    ranks = [
        {
            HOST: str(host.pid),
            "RANK": str(index * ranks_per_host + local_rank),
            "WORLD_SIZE": str(len(hosts) * ranks_per_host),
            "LOCAL_RANK": str(local_rank),
            "LOCAL_WORLD_SIZE": str(ranks_per_host),
            "MASTER_ADDR": hosts[0].address,
            "MASTER_PORT": str(PORT),
            **environment,
            **(env_per_host[index] if env_per_host else {}),
        }
        for index, host in enumerate(hosts)
        for local_rank in range(ranks_per_host)
    ]
    return run_by_hand(report_dir, ranks, *options)


def run_torchrun(
    report_dir: Path,
    hosts: Sequence[Host],
    *options: str,
    env_per_host: Sequence[Mapping[str, str]] = (),
    ranks_per_host: int = 1,
    **environment: str,
) -> Ended:
    """Run ``torchrun ... -m ddpcheck run`` on each host, with static rendezvous."""
    words = ["run", *short(report_dir), *options]
    environments = [{**environment, **each} for each in env_per_host or [{}] * len(hosts)]
    return _torchrun(report_dir, hosts, words, environments, ranks_per_host)


def watch_torchrun(report_dir: Path, hosts: Sequence[Host], script: Path, *words: str) -> Ended:
    """Run ``torchrun ... -m ddpcheck watch SCRIPT WORDS`` with a rank on each host."""
    watch = ["watch", "--report-dir", str(report_dir), str(script), *words]
    return _torchrun(report_dir, hosts, watch, [{}] * len(hosts), 1)


def train_torchrun(report_dir: Path, hosts: Sequence[Host], *words: str) -> Ended:
    """Run ``torchrun ... -m ddpcheck train`` on the newest report, with a rank on each host."""
    train = ["train", "--from", str(report_dir / "latest"), *words]
    return _torchrun(report_dir, hosts, train, [{}] * len(hosts), 1)


def _torchrun(
    report_dir: Path,
    hosts: Sequence[Host],
    words: Sequence[str],
    environments: Sequence[Mapping[str, str]],
    ranks_per_host: int,
) -> Ended:
    launcher = [
        *("-m", "torch.distributed.run", "--nnodes", str(len(hosts))),
        *("--nproc-per-node", str(ranks_per_host)),
        *("--master-addr", hosts[0].address, "--master-port", str(PORT)),
    ]
    started = [
        (host, [*launcher, "--node-rank", str(index), "-m", "ddpcheck", *words], environment)
        for index, (host, environment) in enumerate(zip(hosts, environments, strict=True))
    ]
    return _together(report_dir, started)


def _together(
    report_dir: Path, started: Sequence[tuple[Host, list[str], Mapping[str, str]]]
) -> Ended:
    """Run Python with these arguments on these hosts; return how they ended, in this order."""
    began = time.monotonic()
    outs = [report_dir.parent / f"stdout-{index}" for index in range(len(started))]
    errors = [report_dir.parent / f"stderr-{index}" for index in range(len(started))]
    with ExitStack() as stack:
        processes = [
            host.start(
                [sys.executable, *words],
                env=environment,
                cwd=report_dir.parent,
                stdout=stack.enter_context(out.open("w")),
                stderr=stack.enter_context(error.open("w")),
            )
            for (host, words, environment), out, error in zip(started, outs, errors, strict=True)
        ]
        until = began + LIMIT_S
        codes = [process.wait(timeout=until - time.monotonic()) for process in processes]
    stdout, stderr = ("".join(file.read_text() for file in files) for files in (outs, errors))
    return Ended(tuple(codes), stdout, stderr, time.monotonic() - began, report_dir)


def _plug(host: Namespaces, name: str, switch: Namespaces) -> None:
    """Lay a cable from the switch to a new interface of this name."""
    port = f"port{host.pid}.{len(host.ip('-oneline', 'link').splitlines())}"[-15:]
    cable = ["type", "veth", "peer", "name", name, "netns", str(host.pid)]
    switch.ip("link", "add", port, *cable)
    switch.ip("link", "set", port, "master", "bridge", "up")
    host.ip("link", "set", name, "up")
