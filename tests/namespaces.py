"""The namespaces of one made-up host: its interfaces, name, files in /etc and firewall.

They have no name outside, so tests that run at the same time cannot meet. They are held open by
a process that ends when its stdin does: nothing outlives the test process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from real_ranks import LIMIT_S, clean_environment

TOOLS = ("unshare", "nsenter", "ip", "iptables")
RESOLVERS = {"resolv.conf": "# there is none\n", "nsswitch.conf": "hosts: files dns\n"}
# /sys shows the interfaces of the namespace that mounted it.
HOLD = """set -e
folder=$1
echo "$2" > /proc/sys/kernel/hostname
if [ -d /sys/fs/cgroup ]; then mount --rbind /sys/fs/cgroup "$folder/cgroup"; fi
mount -t sysfs sysfs /sys
if [ -d /sys/fs/cgroup ]; then mount --move "$folder/cgroup" /sys/fs/cgroup; fi
for file in hosts resolv.conf nsswitch.conf; do
    if [ -e "/etc/$file" ]; then mount --bind "$folder/$file" "/etc/$file"; fi
done
ip link set lo up
echo ready
exec cat
"""


@dataclass(frozen=True)
class Namespaces:
    """The namespaces of one host, held open by a process."""

    pid: int
    folder: Path
    started: list[subprocess.Popen[str]] = field(
        default_factory=list[subprocess.Popen[str]], repr=False, kw_only=True
    )

    def start(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Start a command here; ``env`` adds to the environment. It is ended with the host."""
        entry = ["nsenter", "--target", str(self.pid), "--net", "--uts", "--mount", "--"]
        # A process that enters a mount namespace finds itself at its root.
        place = ["env", "--chdir", str(cwd or Path.cwd())]
        environment = {**clean_environment(), **(env or {})}
        whole = [*entry, *place, *command]
        self.started.append(subprocess.Popen(whole, env=environment, text=True, **options))
        return self.started[-1]

    def end_all(self) -> None:
        """End every process that runs here, but for the one that holds this open."""
        # One that is still on its way in has children here only later.
        for child in self.started:
            child.kill()
            child.wait(LIMIT_S)
        while others := [each for each in processes_in(self.pid) if each.pid != self.pid]:
            for process in others:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(others, timeout=LIMIT_S)

    def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = LIMIT_S,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command here to its end; raises TimeoutExpired after ending it."""
        pipe = subprocess.PIPE
        with self.start(command, env=env, cwd=cwd, stdout=pipe, stderr=pipe) as process:
            try:
                stdout, stderr = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        done = subprocess.CompletedProcess(list(command), process.returncode, stdout, stderr)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: {stderr}")
        return done

    def ip(self, *words: str) -> str:
        """Return what ``ip WORDS`` tells here; raises AssertionError when it fails."""
        return self.run(["ip", *words], check=True).stdout


@contextmanager
def opened(folder: Path, name: str) -> Generator[Namespaces]:
    """Open the namespaces of a host of this name until the end of the block."""
    (folder / "cgroup").mkdir(parents=True)
    for file, text in {"hosts": "127.0.0.1 localhost\n", **RESOLVERS}.items():
        (folder / file).write_text(text)
    command = ["unshare", "--net", "--uts", "--mount", "--", "sh", "-c", HOLD, "sh"]
    with subprocess.Popen(
        [*command, str(folder), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        made = Namespaces(holder.pid, folder)
        try:
            if holder.stdout.readline() != "ready\n":
                pytest.skip(f"no namespaces here: {holder.stderr.read().strip()}")
            yield made
        finally:
            made.end_all()
            holder.kill()  # with it go the namespaces


def why_not() -> str:
    """Return why this user or machine can make no hosts, or ''."""
    if os.geteuid() != 0:
        return "making hosts needs root"
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        return f"making hosts needs {', '.join(missing)}: apt-get install -y iproute2 iptables"
    try_it = ["unshare", "--net", "--uts", "--mount", "true"]
    refused = subprocess.run(try_it, capture_output=True, text=True, check=False)
    return f"no namespaces here: {refused.stderr.strip()}" if refused.returncode else ""


def processes_in(holder: int) -> list[psutil.Process]:
    """Return the processes in the network namespace of this one, itself among them."""
    here = _network_of(holder)
    # A holder that has not come so far, or never will, is still in the machine's own.
    if here in (0, _network_of(os.getpid())):
        return []
    return [each for each in psutil.process_iter() if _network_of(each.pid) == here]


def _network_of(pid: int) -> int:
    """Return the inode of a process's network namespace, or 0 when it has ended."""
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return 0
