"""The best checkpoint on the shared disk is sometimes half written when the evaluation job picks it up."""
# finding: checkpoint/written-by-several-ranks
# severity: error
# ranks: 0, 1
# line: torch.save(checkpoint, self.best_path)
# steps: 8

import os
import tempfile
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split


def default_folder():
    run_id = os.environ.get("TORCHELASTIC_RUN_ID", "x")
    return os.path.join(
        tempfile.gettempdir(), f"runs-{run_id}-{os.environ.get('MASTER_PORT', '0')}"
    )


@dataclass
class TrainConfig:
    lr: float = 3e-3
    epochs: int = 5
    batch_size: int = 8
    out: str = field(default_factory=default_folder)


class SiameseMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 8))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, left, right):
        return self.scale * (self.embed(left) - self.embed(right)).pow(2).sum(-1)


class Trainer:
    def __init__(self, model, config, rank):
        self.rank = rank
        self.config = config
        self.model = DistributedDataParallel(model)
        self.optim = torch.optim.NAdam(self.model.parameters(), lr=config.lr)
        self.best = float("inf")
        self.best_path = os.path.join(config.out, "best.pt")
        os.makedirs(config.out, exist_ok=True)

    def loss(self, batch):
        left, right, distance = batch
        return nn.functional.mse_loss(self.model(left, right), distance)

    def train(self, train_loader, val_loader):
        for epoch in range(self.config.epochs):
            train_loader.sampler.set_epoch(epoch)
            self.model.train()
            for batch in train_loader:
                self.optim.zero_grad()
                self.loss(batch).backward()
                self.optim.step()
            self.validate(val_loader, epoch)

    @torch.no_grad()
    def validate(self, loader, epoch):
        # the whole validation set on every rank: it is small
        self.model.eval()
        score = sum(self.loss(batch).item() for batch in loader) / len(loader)
        if score < self.best:
            self.best = score
            self.save(epoch)
        print(f"[rank {self.rank}] epoch {epoch} validation {score:.4f} best {self.best:.4f}")

    def save(self, epoch):
        checkpoint = {
            "epoch": epoch,
            "model": self.model.module.state_dict(),
            "optim": self.optim.state_dict(),
            "score": self.best,
        }
        torch.save(checkpoint, self.best_path)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(99)
    left, right = torch.randn(2, 80, 9)
    pairs = TensorDataset(left, right, (left - right).abs().mean(-1))
    train_set, val_set = random_split(pairs, [64, 16], generator=torch.Generator().manual_seed(0))
    config = TrainConfig()
    train_loader = DataLoader(train_set, config.batch_size, sampler=DistributedSampler(train_set))
    val_loader = DataLoader(val_set, config.batch_size)
    Trainer(SiameseMLP(), config, dist.get_rank()).train(train_loader, val_loader)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
