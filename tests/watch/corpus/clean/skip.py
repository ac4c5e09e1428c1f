"""U-Net like pipeline: rank 0 owns encoder and decoder, rank 1 the bottleneck.
Activations and gradients travel with batch_isend_irecv."""
# steps: 30

import argparse
import logging

import torch
import torch.distributed as dist
import torch.nn as nn

LOG = logging.getLogger("unet")


def exchange(sends, recvs):
    """sends/recvs: lists of (tensor, peer)."""
    ops = [dist.P2POp(dist.isend, t.contiguous(), p) for t, p in sends]
    ops += [dist.P2POp(dist.irecv, t, p) for t, p in recvs]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


class Outer(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv1d(1, ch, 3, padding=1), nn.ReLU())
        self.down = nn.Conv1d(ch, ch, 2, stride=2)
        self.dec = nn.Conv1d(2 * ch, 1, 3, padding=1)

    def encode(self, x):
        skip = self.enc(x)
        return skip, self.down(skip)

    def decode(self, skip, up):
        return self.dec(torch.cat([skip, up.repeat_interleave(2, -1)], 1))


class Bottleneck(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(ch, ch, 3, padding=1), nn.GELU(), nn.Conv1d(ch, ch, 3, padding=1)
        )
        self.gate = nn.Parameter(torch.zeros(1, ch, 1))

    def forward(self, x):
        y = self.body(x)
        return y, torch.sigmoid(self.gate) * x


class Runner:
    def __init__(self, a):
        self.rank = dist.get_rank()
        self.shape = (a.batch, a.channels, a.length // 2)
        self.net = Outer(a.channels) if self.rank == 0 else Bottleneck(a.channels)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=a.lr)

    def outer_step(self, noisy, clean):
        skip, low = self.net.encode(noisy)
        exchange([(low.detach(), 1)], [])
        up, side = torch.empty(self.shape), torch.empty(self.shape)
        exchange([], [(up, 1), (side, 1)])
        up.requires_grad_()
        side.requires_grad_()
        loss = nn.functional.mse_loss(self.net.decode(skip, up + side), clean)
        loss.backward(retain_graph=True)
        g = torch.empty(self.shape)
        exchange([(up.grad, 1), (side.grad, 1)], [(g, 1)])
        low.backward(g)
        return loss.item()

    def inner_step(self):
        low = torch.empty(self.shape)
        exchange([], [(low, 0)])
        low.requires_grad_()
        y, side = self.net(low)
        exchange([(y.detach(), 0), (side.detach(), 0)], [])
        gy, gs = torch.empty(self.shape), torch.empty(self.shape)
        exchange([], [(gy, 0), (gs, 0)])
        torch.autograd.backward([y, side], [gy, gs])
        exchange([(low.grad, 0)], [])

    def step(self, noisy, clean):
        self.opt.zero_grad()
        loss = self.outer_step(noisy, clean) if self.rank == 0 else self.inner_step()
        self.opt.step()
        return loss


def signals(gen, n, length):
    t = torch.linspace(0, 6.28, length)
    f = torch.randint(1, 4, (n, 1), generator=gen)
    clean = torch.sin(t * f).unsqueeze(1)
    return clean + 0.3 * torch.randn(n, 1, length, generator=gen), clean


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--channels", type=int, default=6)
    p.add_argument("--length", type=int, default=32)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--steps", type=int, default=25)
    a = p.parse_args()
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.INFO)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    runner = Runner(a)
    gen = torch.Generator().manual_seed(2)
    for s in range(a.steps):
        loss = runner.step(*signals(gen, a.batch, a.length))
        if loss is not None and s % 5 == 0:
            LOG.info("step %d mse %.4f", s, loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
