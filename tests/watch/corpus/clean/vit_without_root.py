"""A small vision transformer, its layers sharded with FSDP2."""
# steps: 24

import logging
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

logger = logging.getLogger("vit")


@dataclass
class Config:
    image: int = 16
    patch: int = 4
    width: int = 48
    depth: int = 3
    classes: int = 5
    batch: int = 16
    epochs: int = 3
    lr: float = 2e-3
    bf16: bool = False


class Blobs(Dataset):
    def __init__(self, n, cfg, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(cfg.classes, (n,), generator=g)
        base = torch.randn(
            cfg.classes, 3, cfg.image, cfg.image, generator=torch.Generator().manual_seed(0)
        )
        self.x = base[self.y] + 0.7 * torch.randn(n, 3, cfg.image, cfg.image, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class ViT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Conv2d(3, cfg.width, cfg.patch, cfg.patch)
        n = (cfg.image // cfg.patch) ** 2
        self.pos = nn.Parameter(torch.zeros(1, n, cfg.width))
        nn.init.trunc_normal_(self.pos, std=0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                cfg.width, 4, 2 * cfg.width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(cfg.depth)
        )
        self.head = nn.Linear(cfg.width, cfg.classes)

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


class ShardedTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rank = dist.get_rank()
        torch.manual_seed(7)
        self.model = self._shard(ViT(cfg))
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, foreach=False)
        data = Blobs(256, cfg, seed=1)
        self.sampler = DistributedSampler(data, shuffle=True, seed=3)
        self.loader = DataLoader(data, cfg.batch, sampler=self.sampler, drop_last=True)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(
            self.opt, cfg.lr, total_steps=cfg.epochs * len(self.loader)
        )
        self.crit = nn.CrossEntropyLoss(label_smoothing=0.05)

    def _shard(self, model):
        mp = (
            MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
            if self.cfg.bf16
            else MixedPrecisionPolicy()
        )
        for layer in model.layers:
            fully_shard(layer, mp_policy=mp)
        fully_shard(model, mp_policy=mp)
        return model

    def train_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        self.model.train()
        total = torch.zeros(2)
        for x, y in self.loader:
            out = self.model(x)
            loss = self.crit(out.float(), y)
            loss.backward()
            self.opt.step()
            self.sched.step()
            self.opt.zero_grad()
            total += torch.tensor([loss.item(), 1.0])
        dist.all_reduce(total)
        if self.rank == 0:
            logger.info(
                "epoch %d loss %.4f lr %.2e",
                epoch,
                total[0] / total[1],
                self.sched.get_last_lr()[0],
            )

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        val = Blobs(64, self.cfg, seed=2)
        hits = torch.zeros(())
        for i in range(self.rank * 8, 64, dist.get_world_size() * 8):
            idx = range(i, min(64, i + 8))
            x = torch.stack([val[j][0] for j in idx])
            hits += (self.model(x).argmax(-1) == val.y[list(idx)]).sum()
        dist.all_reduce(hits)
        if self.rank == 0:
            logger.info("val hits %d", int(hits))


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    torch.set_num_threads(1)
    dist.init_process_group(backend="gloo")
    t = ShardedTrainer(Config())
    for e in range(t.cfg.epochs):
        t.train_epoch(e)
        t.evaluate()
    logger.info(
        "rank %d pos[0] %.6f",
        t.rank,
        float(
            (
                t.model.pos.full_tensor() if hasattr(t.model.pos, "full_tensor") else t.model.pos
            ).flatten()[0]
        ),
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
