# steps: 30
# silent: gradients/replicas-differ
# writes: files

# Hand-written GPipe: two stages of equal shape, microbatches, activations and gradients by send/recv.
import sys
from collections import deque

import torch
import torch.distributed as dist
from torch import nn

WIDTH, MICRO, MB = 24, 4, 6  # hidden size, microbatches, size of one
STEPS = 24


class StageBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.fc = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.fc(self.norm(x))


class Stage(nn.Module):
    """both stages have the same structure, but are different halves of the network"""

    def __init__(self, index):
        super().__init__()
        g = torch.random.get_rng_state()
        torch.manual_seed(900 + index)
        self.edge = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.Sequential(StageBlock(), StageBlock())
        torch.random.set_rng_state(g)
        self.first = index == 0

    def forward(self, x):
        if self.first:
            return self.blocks(torch.tanh(self.edge(x)))
        return self.edge(self.blocks(x))


class Channel:
    def __init__(self, peer):
        self.peer = peer

    def send(self, t):
        dist.send(t.detach().contiguous(), self.peer)

    def recv(self, shape):
        t = torch.empty(shape)
        dist.recv(t, self.peer)
        return t


class GPipe:
    def __init__(self, stage, rank, lr):
        self.stage, self.rank = stage, rank
        self.ch = Channel(1 - rank)
        self.opt = torch.optim.AdamW(stage.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 10, 0.5)

    def forward_backward(self, xs, ys):
        """returns the mean loss on the last stage, else None"""
        stash, losses = deque(), []
        self.opt.zero_grad()
        for x, y in zip(xs, ys):  # all forwards
            if self.rank == 0:
                out = self.stage(x)
                self.ch.send(out)
                stash.append((None, out))
            else:
                inp = self.ch.recv((MB, WIDTH)).requires_grad_()
                loss = nn.functional.mse_loss(self.stage(inp), y) / MICRO
                losses.append(loss.item())
                stash.append((inp, loss))
        while stash:  # all backwards, last in first out
            inp, out = stash.pop()
            if self.rank == 0:
                out.backward(self.ch.recv(out.shape))
            else:
                out.backward()
                self.ch.send(inp.grad)
        return sum(losses) if losses else None

    def clip(self, max_norm):
        """norm of the whole network: squares summed over the stages"""
        sq = sum(p.grad.pow(2).sum() for p in self.stage.parameters())
        dist.all_reduce(sq)
        norm = sq.sqrt()
        for p in self.stage.parameters():
            p.grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm.item()

    def step(self, xs, ys):
        loss = self.forward_backward(xs, ys)
        norm = self.clip(1.0)
        self.opt.step()
        self.sched.step()
        t = torch.tensor([loss if loss is not None else 0.0])
        dist.broadcast(t, src=1)  # the last stage knows the loss
        return t.item(), norm

    @torch.no_grad()
    def predict(self, x):
        self.stage.eval()
        if self.rank == 0:
            self.ch.send(self.stage(x))
            out = None
        else:
            out = self.stage(self.ch.recv(x.shape))
        self.stage.train()
        return out


def task(step):
    """the same global batch on both ranks: stage 0 reads x, stage 1 reads y"""
    g = torch.Generator().manual_seed(step)
    x = torch.randn(MICRO * MB, WIDTH, generator=g)
    y = torch.roll(x, 3, dims=1) * 0.5 + torch.sin(x)
    return x.chunk(MICRO), y.chunk(MICRO)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if dist.get_world_size() != 2:
        sys.exit("two ranks, please")
    pipe = GPipe(Stage(rank), rank, lr=4e-3)
    for step in range(STEPS):
        loss, norm = pipe.step(*task(step))
        if rank == 1 and step % 6 == 5:
            print(f"step {step} loss {loss:.5f} norm {norm:.4f}", flush=True)
    x, y = task(10_000)
    out = pipe.predict(x[0])
    if rank == 1:
        print(f"held-out mse {nn.functional.mse_loss(out, y[0]).item():.5f}", flush=True)
    torch.save(pipe.stage.state_dict(), f"stage{rank}.pt")
    dist.barrier()
    if rank == 0:
        halves = [torch.load(f"stage{i}.pt") for i in range(2)]
        print("tensors", sum(len(h) for h in halves), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
