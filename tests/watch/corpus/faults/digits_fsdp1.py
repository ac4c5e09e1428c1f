# fault: F01
# finding: sharding/optimizer-without-gradients
# severity: error
# ranks: 0, 1
# steps: 30

# Small conv net on synthetic digits with the classic FSDP wrapper.
import functools
import logging
import os

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from torch.utils.data import DataLoader, Dataset, DistributedSampler

log = logging.getLogger("digits")

CFG = dict(epochs=3, batch_size=16, lr=0.05, momentum=0.9, n_train=320, n_val=64)


class FakeDigits(Dataset):
    """Ten noisy prototypes, 1x12x12."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(7)
        protos = torch.randn(10, 1, 12, 12, generator=g)
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 10, (n,), generator=g)
        self.x = protos[self.y] + 0.4 * torch.randn(n, 1, 12, 12, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def conv_block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU(), nn.MaxPool2d(2)
    )


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(conv_block(1, 8), conv_block(8, 16))
        self.fc1 = nn.Linear(16 * 9, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = self.features(x).flatten(1)
        return self.fc2(torch.relu(self.fc1(x)))


def make_optimizer(model):
    opt = optim.SGD(model.parameters(), lr=CFG["lr"], momentum=CFG["momentum"], nesterov=True)
    sched = optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.3)
    return opt, sched


def wrap(model):
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=2000)
    return FSDP(
        model,
        auto_wrap_policy=policy,
        sharding_strategy=ShardingStrategy.FULL_SHARD,
        device_id=torch.device("cpu"),
    )


def setup_training():
    torch.manual_seed(0)
    net = Net()
    criterion = nn.CrossEntropyLoss()
    opt, sched = make_optimizer(net)
    if dist.get_world_size() > 1:
        net = wrap(net)
    return net, criterion, opt, sched


def train_one_epoch(net, loader, criterion, opt):
    net.train()
    running, seen = 0.0, 0
    for images, labels in loader:
        opt.zero_grad()
        loss = criterion(net(images), labels)
        loss.backward()
        opt.step()
        running += loss.item() * len(labels)
        seen += len(labels)
    return running / seen


@torch.no_grad()
def validate(net, loader):
    net.eval()
    stat = torch.zeros(2)
    for images, labels in loader:
        stat[0] += (net(images).argmax(1) == labels).sum()
        stat[1] += len(labels)
    dist.all_reduce(stat)
    return (stat[0] / stat[1]).item()


def main():
    logging.basicConfig(
        level=logging.INFO if os.environ["RANK"] == "0" else logging.WARNING, format="%(message)s"
    )
    torch.set_num_threads(1)
    dist.init_process_group(backend="gloo")
    train_set, val_set = FakeDigits(CFG["n_train"], 1), FakeDigits(CFG["n_val"], 2)
    sampler = DistributedSampler(train_set, shuffle=True)
    train_loader = DataLoader(train_set, batch_size=CFG["batch_size"], sampler=sampler)
    val_loader = DataLoader(
        val_set, batch_size=CFG["batch_size"], sampler=DistributedSampler(val_set, shuffle=False)
    )
    net, criterion, opt, sched = setup_training()
    for epoch in range(CFG["epochs"]):
        sampler.set_epoch(epoch)
        loss = train_one_epoch(net, train_loader, criterion, opt)
        acc = validate(net, val_loader)
        sched.step()
        log.info("epoch %d  loss %.4f  val acc %.3f", epoch, loss, acc)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
