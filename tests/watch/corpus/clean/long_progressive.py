"""Fine-tuning in phases: head only, then unfreeze block by block; DDP and optimizer are rebuilt at each phase."""
# steps: 30
# writes: files

import gc
import logging
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

logging.basicConfig(level=os.environ.get("LOGLEVEL", "WARNING"))

PHASES = [  # (unfrozen parts, lr, epochs)
    (("head",), 5e-3, 1),
    (("head", "block2"), 2e-3, 2),
    (("head", "block2", "block1", "embed"), 1e-3, 2),
]


class GRUClassifier(nn.Module):
    def __init__(self, vocab=20, d=16, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.block1 = nn.GRU(d, d, batch_first=True)
        self.block2 = nn.GRU(d, d, batch_first=True)
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(d, classes))

    def forward(self, ids):
        h, _ = self.block1(self.embed(ids))
        _, last = self.block2(h)
        return self.head(last[-1])


def dataset(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 20, (n, 8), generator=g)
    return TensorDataset(x, (x < 7).sum(1).clamp(1, 3) - 1)


def set_trainable(model, parts):
    for name, child in model.named_children():
        for p in child.parameters():
            p.requires_grad_(name in parts)
    return [n for n, p in model.named_parameters() if p.requires_grad]


class PhaseTrainer:
    def __init__(self, data, test, rank, world):
        self.data, self.test, self.rank, self.world = data, test, rank, world
        self.sampler = DistributedSampler(data, world, rank, shuffle=True, seed=21)
        self.loader = DataLoader(data, batch_size=12, sampler=self.sampler)
        self.clock = 0  # epochs over all phases

    def run(self, model, phase, lr, epochs):
        ddp = DDP(model)
        opt = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=lr)
        sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: 0.8**e)
        for _ in range(epochs):
            self.sampler.set_epoch(self.clock)
            self.clock += 1
            ddp.train()
            total = torch.zeros(())
            for ids, y in self.loader:
                opt.zero_grad()
                loss = nn.functional.cross_entropy(ddp(ids), y)
                loss.backward()
                opt.step()
                total += loss.detach()
            sched.step()
            dist.all_reduce(total)
            acc = self.evaluate(ddp)
            if self.rank == 0:
                print(
                    f"phase {phase} epoch {self.clock} loss {total.item() / self.world / len(self.loader):.4f} acc {acc:.4f}",
                    flush=True,
                )
        out = ddp.module
        del ddp, opt
        gc.collect()
        return out

    def evaluate(self, ddp):
        ddp.eval()
        x, y = self.test.tensors
        x, y = x[self.rank :: self.world], y[self.rank :: self.world]
        with torch.no_grad():
            t = torch.stack([(ddp(x).argmax(1) == y).sum(), torch.tensor(len(y))])
        dist.all_reduce(t)
        return (t[0] / t[1]).item()


def load_pretrained(model, rank):
    """rank 0 has the file; the others get the weights when DDP wraps the model"""
    if rank == 0:
        g = torch.Generator().manual_seed(4)
        sd = {
            k: torch.randn(v.shape, generator=g) * 0.2
            for k, v in model.state_dict().items()
            if not k.startswith("head")
        }
        torch.save(sd, "pretrained.pt")
        missing, unexpected = model.load_state_dict(torch.load("pretrained.pt"), strict=False)
        assert all(m.startswith("head") for m in missing) and not unexpected
    return model


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(10)
    model = load_pretrained(GRUClassifier(), rank)
    trainer = PhaseTrainer(dataset(168, 1), dataset(55, 2), rank, world)
    for i, (parts, lr, epochs) in enumerate(PHASES):
        names = set_trainable(model, parts)
        if rank == 0:
            print(f"phase {i}: {len(names)} tensors train", flush=True)
        model = trainer.run(model, i, lr, epochs)
        if rank == 0:
            torch.save(model.state_dict(), f"phase{i}.pt")
        dist.barrier()
    print(
        f"rank {rank} w {sum(p.double().abs().sum() for p in model.parameters()).item():.6f}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
