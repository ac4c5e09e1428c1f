# fault: K02
# finding: checkpoint/written-by-several-ranks
# severity: error
# ranks: 0, 1
# line: torch.save(learner.state(), path)
# steps: 30
# writes: files

import logging
import os
from collections import deque

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

logging.basicConfig(format="%(levelname)s:%(message)s", level=logging.INFO)


class ReplayStream:
    """synthetic transitions, one stream a process"""

    def __init__(self, rank, obs=10, actions=3):
        self.g = torch.Generator().manual_seed(1000 + rank)
        self.obs, self.actions = obs, actions
        self.w = torch.randn(obs, actions, generator=torch.Generator().manual_seed(0))

    def sample(self, n):
        s = torch.randn(n, self.obs, generator=self.g)
        return s, (s @ self.w).argmax(1)


class Policy(nn.Module):
    def __init__(self, obs=10, actions=3, hidden=64):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()
        )
        self.pi = nn.Linear(hidden, actions)

    def forward(self, s):
        return self.pi(self.trunk(s))


class CheckpointManager:
    def __init__(self, root, keep=2):
        self.root, self.kept, self.keep = root, deque(), keep
        os.makedirs(root, exist_ok=True)

    def save(self, learner):
        path = os.path.join(self.root, f"step_{learner.it:05d}.pt")
        torch.save(learner.state(), path)
        latest = os.path.join(self.root, "latest.pt")
        torch.save(learner.state(), latest)
        return path


class Learner:
    def __init__(self, out):
        self.rank = dist.get_rank()
        self.policy = DDP(Policy())
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=3e-3)
        self.stream = ReplayStream(self.rank)
        self.ckpt = CheckpointManager(out)
        self.it = 0

    def state(self):
        return {
            "policy": self.policy.module.state_dict(),
            "opt": self.opt.state_dict(),
            "it": self.it,
        }

    def update(self):
        s, a = self.stream.sample(32)
        loss = nn.functional.cross_entropy(self.policy(s), a)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.it += 1
        return loss.item()

    def learn(self, iters, save_every):
        for _ in range(iters):
            l = self.update()
            if self.it % save_every == 0:
                self.ckpt.save(self)
                if self.rank == 0:
                    logging.info("it %d imitation loss %.3f", self.it, l)


def main(out="policy"):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(9)
    Learner(out).learn(iters=40, save_every=5)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
