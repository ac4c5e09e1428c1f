"""stage 1: pretrain the backbone with rotation prediction. stage 2: fine-tune on few labels."""
# fault: K01
# finding: checkpoint/own-state-loaded
# severity: warning
# ranks: 0, 1
# line: model.load_state_dict(model_dict)
# steps: 30
# writes: files

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CKPT = "rotnet.pth"


class Backbone(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(3, width)
        self.conv = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x):
        return self.pool(torch.relu(self.conv(torch.relu(self.norm(self.stem(x)))))).flatten(1)


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(24, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


class Gradients(Dataset):
    def __init__(self, n, seed, rot=False):
        g = torch.Generator().manual_seed(seed)
        ramp = torch.linspace(0, 1, 12)
        self.x = ramp[None, None, None, :].expand(n, 1, 12, 12) + 0.2 * torch.rand(
            n, 1, 12, 12, generator=g
        )
        self.k = torch.randint(0, 4, (n,), generator=g)
        self.rot = rot

    def __len__(self):
        return len(self.k)

    def __getitem__(self, i):
        k = int(self.k[i])
        return torch.rot90(self.x[i], k, (1, 2)), (k if self.rot else k % 2)


def load_pretrained(model, path):
    pretrained = torch.load(path, map_location="cpu")["model"]
    model_dict = model.state_dict()
    # 1. filter out unnecessary keys (the head has another size)
    pretrained = {
        k: v for k, v in pretrained.items() if k in model_dict and v.shape == model_dict[k].shape
    }
    # 2. overwrite entries in the existing state dict
    model_dict.update(pretrained)
    # 3. load the new state dict
    model.load_state_dict(model_dict)


def train(net, data, epochs, lr, tag):
    sampler = DistributedSampler(data, seed=3)
    loader = DataLoader(data, batch_size=8, sampler=sampler, drop_last=True)
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, nesterov=True)
    for e in range(epochs):
        sampler.set_epoch(e)
        tot = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        if dist.get_rank() == 0:
            print(f"{tag} epoch {e}: {tot / len(loader):.4f}", flush=True)
    return opt


def pretrain():
    net = DistributedDataParallel(Model(4))
    opt = train(net, Gradients(128, 0, rot=True), 2, 0.1, "pretrain")
    if dist.get_rank() == 0:
        torch.save({"model": net.state_dict(), "opt": opt.state_dict()}, CKPT)
    dist.barrier()


def finetune():
    model = Model(2)
    load_pretrained(model, CKPT)
    net = DistributedDataParallel(model)
    train(net, Gradients(64, 1), 2, 0.02, "finetune")


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    pretrain()
    finetune()
    dist.destroy_process_group()
