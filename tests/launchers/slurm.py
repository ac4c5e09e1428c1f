"""A real Slurm on made-up hosts: a controller on the first one, and slurmd on each.

It has nothing to do with this machine's own Slurm, if there is one: configuration, key, sockets,
logs and state lie in a temporary folder, the ports are the hosts' own, and all ends with them.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hosts import Host, made_hosts
from real_ranks import LIMIT_S, QUIET, Ended

TOOLS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo")
# Slurm believes this: it shares out what it was told, not the machine's cores.
CORES = 4
LOOK_S = 0.05
READY_S = 30.0
CONFIG = """
ClusterName=ddpcheck
SlurmctldHost={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
{more}
"""


@dataclass(frozen=True)
class Cluster:
    """A running Slurm; its commands are given on the first host."""

    hosts: Sequence[Host]
    folder: Path

    def run(self, report_dir: Path, *words: str, **environment: str) -> Ended:
        """Run a command such as ``srun -n 2 ...`` to its end."""
        began = time.monotonic()
        done = self.hosts[0].run(words, env=self.variables | environment, cwd=report_dir.parent)
        took_s = time.monotonic() - began
        return Ended((done.returncode,), done.stdout, done.stderr, took_s, report_dir)

    def batch(self, report_dir: Path, options: Sequence[str], *lines: str) -> Ended:
        """Run a batch script of these lines to its end; its exit code is the last line's."""
        began = time.monotonic()
        folder = report_dir.parent
        script, out, error, code = (folder / name for name in ("job.sh", "out", "error", "code"))
        # sbatch --wait looks only twice a minute.
        last = f"echo $? > {code}.part; mv {code}.part {code}"
        script.write_text("\n".join(("#!/bin/bash", *lines, last, "")))
        places = ("--output", str(out), "--error", str(error))
        submitted = self.run(report_dir, "sbatch", *options, *places, str(script))
        assert submitted.exit_code == 0, submitted.stderr
        self._until(code.exists, LIMIT_S)
        codes = (int(code.read_text()),)
        took_s = time.monotonic() - began
        return Ended(codes, out.read_text(), error.read_text(), took_s, report_dir)

    @property
    def variables(self) -> dict[str, str]:
        """Return what leads Slurm's commands to this Slurm."""
        return QUIET | {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> None:
        """Start the daemons; returns when every node is idle."""
        places = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid"}
        places |= {"seed-file": "munge.seed", "log-file": "munge.log"}
        files = [f"--{option}={self.folder / name}" for option, name in places.items()]
        # Forced: it does not like what is below /tmp, where all may write.
        self._daemon(self.hosts[0], "munged", "--foreground", "--force", *files)
        self._until((self.folder / "munge.socket").exists)
        self._daemon(self.hosts[0], "slurmctld", "-D")
        for host in self.hosts:
            self._daemon(host, "slurmd", "-D")
        self._until(self._all_are_idle)

    def _daemon(self, host: Host, name: str, *options: str) -> None:
        null = subprocess.DEVNULL
        program = _found(name)
        assert program
        host.start(
            [program, *options],
            env=self.variables,
            cwd=self.folder,
            stdin=null,
            stdout=null,
            stderr=null,
        )

    def _all_are_idle(self) -> bool:
        sinfo = ["sinfo", "--noheader", "--Node", "--format=%T"]
        told = self.hosts[0].run(sinfo, env=self.variables).stdout.split()
        return told == ["idle"] * len(self.hosts)

    def _until(self, is_so: Callable[[], bool], limit_s: float = READY_S) -> None:
        until = time.monotonic() + limit_s
        while not is_so():
            assert time.monotonic() < until, self._logs()
            time.sleep(LOOK_S)

    def _logs(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{log.name}:\n{log.read_text()[-2000:]}" for log in logs)


def why_not() -> str:
    """Return why no Slurm can be started here, or ''."""
    missing = [tool for tool in TOOLS if not _found(tool)]
    wanted = "apt-get install -y --no-install-recommends slurm-wlm munge"
    return f"Slurm has no {', '.join(missing)} here: {wanted}" if missing else ""


@contextmanager
def made_cluster(nodes: int = 2, more: str = "") -> Generator[Cluster]:
    """Make hosts with a Slurm, until the end of the block; skips the test where it cannot.

    more: lines of its configuration.
    """
    if reason := why_not():
        pytest.skip(reason)
    # The daemons end with the hosts, and write until then: the folder goes last.
    with tempfile.TemporaryDirectory(prefix="slurm") as name, made_hosts(nodes) as hosts:
        folder = Path(name)
        (folder / "munge.key").write_bytes(b"k" * 32)
        (folder / "munge.key").chmod(0o600)
        lines = [f"NodeName={h.name} NodeAddr={h.address} CPUs={CORES}" for h in hosts]
        controller = f"{hosts[0].name}({hosts[0].address})"
        text = CONFIG.format(
            folder=folder, controller=controller, nodes="\n".join(lines), more=more
        )
        (folder / "slurm.conf").write_text(text)
        cluster = Cluster(hosts, folder)
        cluster.start()
        yield cluster


def _found(tool: str) -> str | None:
    # Daemons are where only root looks for them.
    return shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin")
