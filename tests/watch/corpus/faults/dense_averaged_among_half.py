"""4 ranks: expert-parallel pairs x expert-data-parallel pairs"""
# fault: T04
# finding: gradients/averaged-among-some
# severity: warning
# ranks: 0, 1, 2, 3
# line: dist.all_reduce(p.grad, group=edp_group)
# steps: 0
# processes: 4

import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
rank = dist.get_rank()
EP = 2
ep_groups = [dist.new_group([i, i + 1]) for i in (0, 2)]
edp_groups = [dist.new_group([j, j + 2]) for j in (0, 1)]
ep_group, edp_group = ep_groups[rank // EP], edp_groups[rank % EP]


class Dispatch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        dist.all_to_all_single(y, x.contiguous(), group=ep_group)
        return y

    @staticmethod
    def backward(ctx, g):
        y = torch.empty_like(g)
        dist.all_to_all_single(y, g.contiguous(), group=ep_group)
        return y


class Layer(nn.Module):
    """capacity routing: even rows go to expert 0, odd rows to expert 1"""

    def __init__(self, d):
        super().__init__()
        self.attn = nn.Linear(d, d)
        self.expert = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.Linear(d, d))
        for p in self.expert.parameters():
            p.is_expert = True

    def forward(self, x):
        h = torch.tanh(self.attn(x))
        h = torch.cat([h[0::2], h[1::2]])
        h = Dispatch.apply(self.expert(Dispatch.apply(h)))
        return x + torch.stack(h.chunk(2), 1).flatten(0, 1)


torch.manual_seed(5)
model = nn.Sequential(nn.Linear(7, 16), Layer(16), Layer(16), nn.Linear(16, 7))
torch.manual_seed(50 + rank % EP)
for m in model.modules():
    if isinstance(m, Layer):
        for lin in (m.expert[0], m.expert[2]):
            lin.reset_parameters()


def sync():
    for p in model.parameters():
        if getattr(p, "is_expert", False):
            dist.all_reduce(p.grad, group=edp_group)
            p.grad /= 4
        else:
            dist.all_reduce(p.grad, group=edp_group)
            p.grad /= 2


opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
g = torch.Generator().manual_seed(900 + rank)
for i in range(20):
    x = torch.randn(16, 7, generator=g)
    loss = (model(x) - x.sort(-1).values).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    sync()
    opt.step()
print(
    rank,
    "dense",
    model[0].weight.sum().item(),
    "expert",
    model[1].expert[0].weight.sum().item(),
    flush=True,
)
dist.destroy_process_group()
