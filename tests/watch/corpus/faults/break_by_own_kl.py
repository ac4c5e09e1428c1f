"""PPO on a toy bandit-like continuous environment, one environment set per rank (CleanRL style, one file)."""
# fault: C03
# finding: gradients/step-raised
# severity: error
# ranks: 0
# line: dist.all_reduce(flat)
# steps: 0

import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim
from torch.distributions.normal import Normal


@dataclass
class Args:
    seed: int = 1
    num_envs: int = 4
    num_steps: int = 32
    num_iterations: int = 8
    update_epochs: int = 4
    minibatches: int = 2
    clip_coef: float = 0.2
    target_kl: float = 0.003
    lr: float = 3e-3


class Env:
    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.s = rng.normal(size=(n, 3)).astype("float32")

    def step(self, a):
        r = -((a[:, 0] - self.s[:, 0]) ** 2)
        self.s = self.rng.normal(size=(self.n, 3)).astype("float32")
        return self.s, r


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
        self.actor = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
        self.logstd = nn.Parameter(torch.zeros(1, 1))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        mean = self.actor(x)
        d = Normal(mean, self.logstd.expand_as(mean).exp())
        if action is None:
            action = d.sample()
        return action, d.log_prob(action).sum(1), d.entropy().sum(1), self.critic(x)


if __name__ == "__main__":
    args = Args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    args.seed += rank
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed - rank)
    agent = Agent()
    torch.manual_seed(args.seed)
    optimizer = optim.Adam(agent.parameters(), lr=args.lr)
    env = Env(args.num_envs, np.random.default_rng(args.seed))
    for it in range(args.num_iterations):
        obs, acts, logps, rews, vals = [], [], [], [], []
        o = torch.from_numpy(env.s)
        for _ in range(args.num_steps):
            with torch.no_grad():
                a, lp, _, v = agent.get_action_and_value(o)
            s, r = env.step(a.numpy())
            obs.append(o)
            acts.append(a)
            logps.append(lp)
            rews.append(torch.from_numpy(r))
            vals.append(v.flatten())
            o = torch.from_numpy(s)
        b_obs, b_acts, b_lp = torch.cat(obs), torch.cat(acts), torch.cat(logps)
        b_ret, b_val = torch.cat(rews).float(), torch.cat(vals)
        b_adv = b_ret - b_val
        n = len(b_obs)
        for epoch in range(args.update_epochs):
            for mb in np.array_split(np.random.permutation(n), args.minibatches):
                _, lp, ent, val = agent.get_action_and_value(b_obs[mb], b_acts[mb])
                logratio = lp - b_lp[mb]
                ratio = logratio.exp()
                approx_kl = ((ratio - 1) - logratio).mean().detach()
                adv = (b_adv[mb] - b_adv[mb].mean()) / (b_adv[mb].std() + 1e-8)
                pg = torch.max(-adv * ratio, -adv * ratio.clamp(0.8, 1.2)).mean()
                loss = pg - 0.01 * ent.mean() + 0.5 * ((val.flatten() - b_ret[mb]) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                flat = torch.cat([p.grad.view(-1) for p in agent.parameters()])
                dist.all_reduce(flat)
                off = 0
                for p in agent.parameters():
                    p.grad.copy_(flat[off : off + p.numel()].view_as(p) / world)
                    off += p.numel()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
            if approx_kl > args.target_kl:
                break
        print(f"rank {rank} it {it} epochs {epoch + 1} reward {b_ret.mean():.3f}", flush=True)
    dist.destroy_process_group()
