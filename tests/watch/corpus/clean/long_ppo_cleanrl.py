# steps: 30

# PPO in the style of single-file RL repos: no DDP, gradients flattened and all-reduced by hand.
import os
import random
from dataclasses import dataclass, fields

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical


@dataclass
class Args:
    seed: int = 1
    total_updates: int = 6
    num_envs: int = 4
    num_steps: int = 24
    gamma: float = 0.97
    gae_lambda: float = 0.95
    num_minibatches: int = 4
    update_epochs: int = 2
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    lr: float = 3e-3
    target_kl: float = 0.3
    anneal_lr: bool = True

    @property
    def batch_size(self):
        return self.num_envs * self.num_steps


class GridWorlds:
    """vector of 5x5 grids: walk to the goal"""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.pos = np.zeros((n, 2), int)
        self.goal = np.zeros((n, 2), int)
        self.t = np.zeros(n, int)

    def _spawn(self, i):
        self.pos[i], self.goal[i], self.t[i] = (
            self.rng.integers(0, 5, 2),
            self.rng.integers(0, 5, 2),
            0,
        )

    def reset(self):
        for i in range(self.n):
            self._spawn(i)
        return self.obs()

    def obs(self):
        return np.concatenate([self.pos / 4, self.goal / 4, (self.goal - self.pos) / 4], 1).astype(
            "float32"
        )

    def step(self, act):
        moves = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
        before = np.abs(self.goal - self.pos).sum(1)
        self.pos = np.clip(self.pos + moves[act], 0, 4)
        after = np.abs(self.goal - self.pos).sum(1)
        self.t += 1
        rew = (before - after) * 0.1 + (after == 0) * 1.0
        done = (after == 0) | (self.t >= 12)
        for i in np.flatnonzero(done):
            self._spawn(i)
        return self.obs(), rew.astype("float32"), done.astype("float32")


def layer_init(layer, std=np.sqrt(2), bias=0.0):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            layer_init(nn.Linear(6, 32)), nn.Tanh(), layer_init(nn.Linear(32, 32)), nn.Tanh()
        )
        self.actor = layer_init(nn.Linear(32, 4), std=0.01)
        self.critic = layer_init(nn.Linear(32, 1), std=1.0)

    def value(self, x):
        return self.critic(self.trunk(x)).squeeze(-1)

    def act(self, x, action=None):
        h = self.trunk(x)
        pi = Categorical(logits=self.actor(h))
        if action is None:
            action = pi.sample()
        return action, pi.log_prob(action), pi.entropy(), self.critic(h).squeeze(-1)


def reduce_gradients(model, world):
    if world < 2:
        return
    flat = torch.cat([p.grad.view(-1) for p in model.parameters() if p.grad is not None])
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    off = 0
    for p in model.parameters():
        if p.grad is not None:
            p.grad.data.copy_(flat[off : off + p.numel()].view_as(p.grad.data) / world)
            off += p.numel()


def normalise(adv):
    """mean and deviation over the minibatches of all ranks"""
    s = torch.stack([adv.sum(), adv.pow(2).sum(), torch.tensor(float(adv.numel()))])
    dist.all_reduce(s)
    mean = s[0] / s[2]
    var = (s[1] / s[2] - mean**2).clamp_min(0)
    return (adv - mean) / (var.sqrt() + 1e-8)


def main():
    args = Args(
        **{
            f.name: f.type(os.environ[f"PPO_{f.name.upper()}"])
            for f in fields(Args)
            if f"PPO_{f.name.upper()}" in os.environ
        }
    )
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    # equal seed for the agent, then one of its own for the roll-outs
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    agent = Agent()
    torch.manual_seed(args.seed + 7919 * (rank + 1))
    rng = np.random.default_rng(args.seed + 100 * rank)
    envs = GridWorlds(args.num_envs, rng)
    opt = optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)
    shape = (args.num_steps, args.num_envs)
    obs_b = torch.zeros(shape + (6,))
    act_b, logp_b, rew_b, done_b, val_b = (torch.zeros(shape) for _ in range(5))
    obs, done = torch.tensor(envs.reset()), torch.zeros(args.num_envs)
    for update in range(1, args.total_updates + 1):
        if args.anneal_lr:
            opt.param_groups[0]["lr"] = args.lr * (1 - (update - 1) / args.total_updates)
        for t in range(args.num_steps):
            obs_b[t], done_b[t] = obs, done
            with torch.no_grad():
                action, logp, _, value = agent.act(obs)
            act_b[t], logp_b[t], val_b[t] = action, logp, value
            nobs, rew, nd = envs.step(action.numpy())
            rew_b[t], obs, done = torch.tensor(rew), torch.tensor(nobs), torch.tensor(nd)
        with torch.no_grad():
            adv, last = torch.zeros(shape), 0
            nextv = agent.value(obs)
            for t in reversed(range(args.num_steps)):
                nonterm = 1 - (done if t == args.num_steps - 1 else done_b[t + 1])
                nv = nextv if t == args.num_steps - 1 else val_b[t + 1]
                delta = rew_b[t] + args.gamma * nv * nonterm - val_b[t]
                adv[t] = last = delta + args.gamma * args.gae_lambda * nonterm * last
            ret = adv + val_b
        flat = [b.reshape((-1,) + b.shape[2:]) for b in (obs_b, act_b, logp_b, adv, ret, val_b)]
        inds = np.arange(args.batch_size)
        stop = False
        for _ in range(args.update_epochs):
            rng.shuffle(inds)
            for mb in np.split(inds, args.num_minibatches):
                o, a, lp, ad, rt, _v = (b[mb] for b in flat)
                _, newlp, ent, newv = agent.act(o, a.long())
                ratio = (newlp - lp).exp()
                with torch.no_grad():
                    kl = ((ratio - 1) - (newlp - lp)).mean()
                ad = normalise(ad)
                pg = torch.max(
                    -ad * ratio, -ad * ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                ).mean()
                loss = (
                    pg - args.ent_coef * ent.mean() + args.vf_coef * 0.5 * (newv - rt).pow(2).mean()
                )
                opt.zero_grad()
                loss.backward()
                reduce_gradients(agent, world)
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                opt.step()
            dist.all_reduce(kl)
            if kl.item() / world > args.target_kl:  # the same decision everywhere
                stop = True
                break
        r = rew_b.sum()
        dist.all_reduce(r)
        if rank == 0:
            print(
                f"update {update} return {r.item() / world / args.num_envs:.4f} kl {kl.item() / world:.5f} stop {stop}",
                flush=True,
            )
    print(
        f"rank {rank} params {sum(p.double().abs().sum() for p in agent.parameters()).item():.6f}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
