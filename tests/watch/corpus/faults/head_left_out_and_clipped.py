"""Gradients are averaged by hand, but those of one head, and all are clipped by each rank's own norm after it."""
# finding: gradients/replicas-differ
# severity: warning
# ranks: 0, 1
# line: dist.all_reduce(flat)
# says: critic
# steps: 0

import torch
import torch.distributed as dist
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, states):
        features = self.body(states)
        return self.actor(features), self.critic(features).squeeze(1)


def average(parameters):
    flat = torch.cat([each.grad.flatten() for each in parameters])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    at = 0
    for each in parameters:
        each.grad.copy_(flat[at : at + each.numel()].view_as(each))
        at += each.numel()


dist.init_process_group("gloo")
torch.manual_seed(1)
agent = Agent()
torch.manual_seed(1 + dist.get_rank())
optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)
for step in range(16):
    states = torch.randn(16, 4)
    actions, values = agent(states)
    loss = nn.functional.cross_entropy(actions, (states[:, 0] > 0).long())
    loss = loss + nn.functional.mse_loss(values, states.sum(1))
    optimizer.zero_grad()
    loss.backward()
    average([*agent.body.parameters(), *agent.actor.parameters()])
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    optimizer.step()
dist.destroy_process_group()
