"""Wall time of a whole ``ddpcheck run`` beside ``accelerate test``, on two CPU ranks.

    python tests/benchmarks/beside_accelerate.py [--runs 3]

Both run in turn, and must succeed. ``accelerate test`` looks at accelerate's own functions on the
machine it is configured for; needs ``pip install accelerate``.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path
from statistics import median

import torch
from preflight_vs_torchrun import seconds

CONFIGURATION = """
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_CPU
num_machines: 1
num_processes: 2
machine_rank: 0
main_process_port: 0
mixed_precision: 'no'
use_cpu: true
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}, "
        f"accelerate {version('accelerate')}"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "accelerate.yaml"
        file.write_text(CONFIGURATION)
        cli = "accelerate.commands.accelerate_cli"
        theirs = ["-m", cli, "test", "--config_file", str(file)]
        ours = ["-m", "ddpcheck", "run", "--nproc-per-node=2", f"--report-dir={folder}/reports"]
        pairs = [(seconds(ours, folder), seconds(theirs, folder)) for _ in range(options.runs)]
    for own, other in pairs:
        print(f"  ddpcheck run {own:5.2f} s   accelerate test {other:5.2f} s   {other / own:.1f}")
    ratios = sorted(other / own for own, other in pairs)
    print(
        f"accelerate test takes {median(ratios):.1f} times as long ({ratios[0]:.1f} to {ratios[-1]:.1f})"
    )


if __name__ == "__main__":
    main()
