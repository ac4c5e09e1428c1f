"""A script that chooses its GPU, takes its arguments, resumes and waits as it should."""

import os

if "OWN_GPU" in os.environ:
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["OWN_GPU"]

import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local-rank", "--local_rank", type=int, default=0)
    return parser.parse_args([])


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    dist.barrier()
    make()
    dist.destroy_process_group()


def make():
    arguments()
    model = nn.Linear(8, 1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "last.pt"
        torch.save(model.state_dict(), file)
        model.load_state_dict(torch.load(file, map_location="cpu"))
    batches = [torch.randn(4, 8) for _ in range(6)]
    return model, batches, lambda model, batch: model(batch).square().mean()


if __name__ == "__main__":
    main()
