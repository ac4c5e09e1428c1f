"""The loop that people write by hand: MiniGPT in DDP, on this rank's part of the text.

torchrun --nproc-per-node 2 tests/benchmarks/minimal_ddp.py STEPS GLOBAL_BATCH
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, next_byte_loss
from ddpcheck.target.text import TextBlocks, read_text
from ddpcheck.train.speed import UNTIMED_STEPS

steps, global_batch = map(int, sys.argv[1:])
gpu = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
if gpu:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if gpu else "gloo")
world_size = dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(MiniGPT(MiniGPTConfig()).to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
dataset = TextBlocks(read_text(""), MiniGPTConfig().block)
sampler: DistributedSampler[torch.Tensor] = DistributedSampler(dataset)
loader = DataLoader(
    dataset, global_batch // world_size, sampler=sampler, drop_last=True, pin_memory=gpu
)
step = tokens = 0
started = time.perf_counter()
while step < steps:
    for batch in loader:
        if step == UNTIMED_STEPS:
            if gpu:
                torch.cuda.synchronize()
            started, tokens = time.perf_counter(), 0
        loss = next_byte_loss(model, batch.to(device, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tokens += batch[:, 1:].numel() * world_size
        step += 1
        if step == steps:
            break
if gpu:
    torch.cuda.synchronize()
if dist.get_rank() == 0:
    print(f"tokens/s {tokens / (time.perf_counter() - started)}")
dist.destroy_process_group()
