"""Wall time of a whole `ddpcheck run` against a bare `torchrun` hello all-reduce.

    python tests/benchmarks/preflight_vs_torchrun.py [--ranks 2] [--runs 5] [--backend gloo]
        [--under-torchrun] [--with-step]

With --with-step the hello also makes one step of DDP and AdamW, as the preflight's rehearsal does: for
that torch imports its compiler, which takes about as long as torch itself.

Both sides run in turn, so that a machine that slows down slows both; the ratio is taken
pair by pair. Prints each pair, and the median ratio with its spread.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

HELLO = """
import os, torch, torch.distributed as dist
backend = {backend!r}
device = "cpu"
if backend == "nccl":
    device = f"cuda:{{os.environ['LOCAL_RANK']}}"
    torch.cuda.set_device(device)
dist.init_process_group(backend)
one = torch.ones(1, device=device)
dist.all_reduce(one)
assert one.item() == dist.get_world_size()
if {with_step}:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).to(device))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 8, device=device)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def main() -> None:
    """Measure and print."""
    options = parsed()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "hello.py"
        script.write_text(HELLO.format(backend=options.backend, with_step=options.with_step))
        ranks = f"--nproc-per-node={options.ranks}"
        torchrun = ["-m", "torch.distributed.run", ranks]
        own = ["-m", "ddpcheck", "run", f"--backend={options.backend}"]
        ours = [*torchrun, *own] if options.under_torchrun else [*own, ranks]
        ours += [f"--report-dir={folder}/reports"]
        theirs = [*torchrun, str(script)]
        print(
            f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
        )
        seconds(ours, folder)  # warms the disk cache for both
        pairs = [(seconds(ours, folder), seconds(theirs, folder)) for _ in range(options.runs)]
    ratios = sorted(mine / bare for mine, bare in pairs)
    under = " under torchrun" if options.under_torchrun else ""
    hello = "hello and a step" if options.with_step else "hello"
    for mine, bare in pairs:
        print(f"  ddpcheck run {mine:5.2f} s   torchrun {hello} {bare:5.2f} s   {mine / bare:.2f}")
    print(
        f"{options.ranks} {options.backend} ranks{under}, {hello}: median ratio {median(ratios):.2f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}), medians "
        f"{median(m for m, _ in pairs):.2f} s and {median(b for _, b in pairs):.2f} s"
    )


def parsed() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    parser.add_argument("--under-torchrun", action="store_true")
    parser.add_argument("--with-step", action="store_true")
    return parser.parse_args()


def seconds(arguments: list[str], folder: str) -> float:
    """Return the wall seconds of one run, which must succeed."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    took_s = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return took_s


if __name__ == "__main__":
    main()
