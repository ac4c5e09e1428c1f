"""How fast ``ddpcheck train`` is beside a minimal DDP loop that is written by hand.

    python tests/benchmarks/train_throughput.py [--runs N] [--steps N] [--global-batch N]

Both train the same model with the same batches on the same two ranks, in turn.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import torch

SCRIPT = Path(__file__).with_name("minimal_ddp.py")
RANKS = "--nproc-per-node=2"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--global-batch", type=int, default=32)
    options = parser.parse_args()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(
        f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}, {gpu}"
    )
    words = [str(options.steps), str(options.global_batch)]
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        _ddpcheck(folder, "run", "--select=launch")
        for _ in range(options.runs):
            own = _trained(folder, words)
            minimal = _minimal(folder, words)
            ratios.append(own / minimal)
            print(
                f"  ddpcheck train {own:,.0f} tokens/s   by hand {minimal:,.0f}   {ratios[-1]:.3f}"
            )
    print(
        f"global batch {options.global_batch}, {options.steps} steps: median ratio "
        f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
    )


def _trained(folder: str, words: list[str]) -> float:
    steps, batch = words
    _ddpcheck(folder, "train", f"--steps={steps}", f"--global-batch={batch}", "--precision=fp32")
    report = json.loads(Path(folder, "reports", "latest", "report.json").read_text())
    return float(report["training"]["tokens_per_s"])


def _minimal(folder: str, words: list[str]) -> float:
    launch = ["-m", "torch.distributed.run", "--standalone", RANKS, str(SCRIPT)]
    told = re.search(r"^tokens/s (\S+)$", _output(folder, [*launch, *words]), re.MULTILINE)
    if told is None:
        raise SystemExit("the loop written by hand did not tell how fast it was")
    return float(told[1])


def _ddpcheck(folder: str, command: str, *words: str) -> None:
    _output(folder, ["-m", "ddpcheck", command, RANKS, *words])


def _output(folder: str, words: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
