"""The Prolog of docs/examples under a real Slurm: it drains a node that fails, and no other."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from slurm import made_cluster

PROLOG = Path(__file__).parents[2] / "docs/examples/slurm-prolog.sh"
# slurmd gives it few variables: what an administrator would write into the script comes from here.
WRAPPER = """#!/bin/bash
export PATH={path} PYTHONPATH={pythonpath} DDPCHECK_PYTHON={python}
export DDPCHECK_REPORT_DIR={folder}/$SLURMD_NODENAME SLURM_CONF=$SLURM_CONF
export DDPCHECK_SELECT=launch,environment,network DDPCHECK_NPROC_PER_NODE=2
if [[ $SLURMD_NODENAME == host1 ]]; then
    export GLOO_SOCKET_IFNAME=nothing0
fi
exec {prolog} > {folder}/said-$SLURMD_NODENAME
"""


def test_a_node_that_fails_is_drained_with_the_reason(tmp_path: Path) -> None:
    prolog = tmp_path / "prolog.sh"
    prolog.write_text(
        WRAPPER.format(
            path=os.environ["PATH"],
            pythonpath=os.environ.get("PYTHONPATH", ""),
            python=sys.executable,
            folder=tmp_path,
            prolog=PROLOG,
        )
    )
    prolog.chmod(0o755)
    with made_cluster(more=f"Prolog={prolog}\nPrologFlags=Alloc") as cluster:
        reports = tmp_path / "reports"
        sound = cluster.run(reports, "srun", "--nodelist=host0", "hostname")
        assert sound.exit_code == 0, sound.stderr
        cluster.run(reports, "timeout", "60", "srun", "--nodelist=host1", "true")
        told = cluster.run(reports, "sinfo", "--noheader", "--Node", "--format=%N|%T|%E").stdout
    states = dict(line.split("|", 1) for line in told.splitlines())
    assert states["host0"].startswith("idle|none")
    assert states["host1"].startswith("drain")
    reason = (tmp_path / "said-host1").read_text().strip()
    assert reason.startswith("ddpcheck: network/")
    assert reason in states["host1"]
