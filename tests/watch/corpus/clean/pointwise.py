# steps: 20

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class PointwiseFunction(torch.autograd.Function):
    """A 1x1 convolution as one matrix product: what its backward returns has no fixed layout."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.einsum("nchw,oc->nohw", x, weight[:, :, 0, 0])

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x = torch.einsum("nohw,oc->nchw", grad, weight[:, :, 0, 0])
        grad_weight = torch.einsum("nohw,nchw->oc", grad, x).contiguous()
        return grad_x, grad_weight[:, :, None, None].to(memory_format=torch.channels_last)


class Pointwise(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cout, cin, 1, 1) / cin**0.5)

    def forward(self, x):
        return PointwiseFunction.apply(x, self.weight)


class Mobile(nn.Module):
    def __init__(self, c=16, classes=4):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, 2, 1)
        self.depthwise = nn.Conv2d(c, c, 3, 1, 1, groups=c)
        self.pointwise = Pointwise(c, 2 * c)
        self.head = nn.Linear(2 * c, classes)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = F.relu(self.pointwise(self.depthwise(x)))
        return self.head(x.mean((2, 3)))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DDP(Mobile().to(memory_format=torch.channels_last))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    g = torch.Generator().manual_seed(40 + dist.get_rank())
    for _ in range(20):
        x = torch.rand(8, 3, 16, 16, generator=g).to(memory_format=torch.channels_last)
        y = (x.mean((1, 2, 3)) * 80).long() % 4
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


main()
