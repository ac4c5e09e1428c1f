"""rank 0 learns, the others act: weights by broadcast, trajectories by gather_object; actors never call backward; actors have no optimizer"""
# steps: 0
# processes: 3

import random

import torch
import torch.distributed as dist
import torch.nn as nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.pi, self.v = nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, o):
        h = self.b(o)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def rollout(net, rng):
    o = torch.tensor([rng.uniform(-1, 1) for _ in range(4)])
    T = []
    for _ in range(rng.randint(5, 15)):
        with torch.no_grad():
            d, _ = net(o)
        a = d.sample()
        T.append((o, a, float((a == (o.sum() > 0).long()).item())))
        o = torch.tensor([rng.uniform(-1, 1) for _ in range(4)])
    return T


def main():
    dist.init_process_group("gloo")
    r, w = dist.get_rank(), dist.get_world_size()
    net = Policy()
    rng = random.Random(r)
    opt = torch.optim.Adam(net.parameters(), 1e-2) if r == 0 else None
    for it in range(20):
        for p in net.state_dict().values():
            dist.broadcast(p, 0)
        mine = [rollout(net, rng) for _ in range(2)] if r else None
        box = [None] * w if r == 0 else None
        dist.gather_object(mine, box, dst=0)
        if r == 0:
            b = [s for tr in box if tr for t in tr for s in t]
            o, a, rew = (
                torch.stack([x[0] for x in b]),
                torch.stack([x[1] for x in b]),
                torch.tensor([x[2] for x in b]),
            )
            d, v = net(o)
            loss = (
                -(d.log_prob(a) * (rew - v.detach())).mean()
                + (v - rew).pow(2).mean()
                - 0.01 * d.entropy().mean()
            )
            opt.zero_grad()
            loss.backward()
            opt.step()
            if it % 5 == 0:
                print(it, rew.mean().item(), flush=True)
        stop = torch.tensor(float(it >= 19))
        dist.broadcast(stop, 0)
        if stop.item():
            break
    dist.destroy_process_group()


main()
