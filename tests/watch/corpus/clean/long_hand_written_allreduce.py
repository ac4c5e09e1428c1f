"""No DDP: weights are broadcast once and gradients averaged by hand."""
# steps: 30

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def broadcast_weights(model):
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)


def average_gradients(model):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    flat /= dist.get_world_size()
    for grad, part in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
        grad.copy_(part.view_as(grad))


class PolicyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.ReLU())
        self.actor = nn.Linear(32, 2)
        self.critic = nn.Linear(32, 1)

    def forward(self, state):
        h = self.body(state)
        return self.actor(h), self.critic(h).squeeze(-1)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(50 + dist.get_rank())
    model = PolicyNet()
    broadcast_weights(model)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

    g = torch.Generator().manual_seed(2)
    states = torch.randn(96, 4, generator=g)
    actions = (states[:, 0] + states[:, 1] > 0).long()
    returns = states.abs().sum(1)
    data = TensorDataset(states, actions, returns)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)

    for epoch in range(7):
        sampler.set_epoch(epoch)
        for state, action, ret in loader:
            logits, value = model(state)
            loss = nn.functional.cross_entropy(logits, action)
            loss = loss + 0.5 * (value - ret).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            average_gradients(model)
            optimizer.step()
        print("rank", dist.get_rank(), "epoch", epoch, "loss", f"{loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
