"""Fine-tuning takes the whole model of a checkpoint, and leaves its optimizer and its old head."""
# steps: 4

import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.MultiheadAttention(width, 2, batch_first=True)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        y = self.first(x)
        x = x + self.mix(y, y, y, need_weights=False)[0]
        return x + self.feed(self.second(x))


class Reader(nn.Module):
    def __init__(self, depth=4, width=16, vocab=30, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.head = nn.Linear(width, vocab)
        self.classifier = nn.Linear(width, classes)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

    def classify(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.classifier(x.mean(dim=1))


class Classifier(nn.Module):
    def __init__(self, reader):
        super().__init__()
        self.reader = reader

    def forward(self, ids):
        return self.reader.classify(ids)


def pretrained(folder):
    """Stands for the run of last week, which left its checkpoint."""
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.zeros(1, 3, dtype=torch.long)).sum().backward()
    optimizer.step()
    dcp.save({"model": model.state_dict(), "optim": optimizer.state_dict()}, checkpoint_id=folder)


def finetune(folder):
    torch.manual_seed(3 + dist.get_rank())
    model = Reader()
    body = {name: each for name, each in model.state_dict().items() if "head" not in name}
    state = {"model": {name: each for name, each in body.items() if "classifier" not in name}}
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"], strict=False)
    model.head.requires_grad_(False)
    model = DDP(Classifier(model))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(6):
        ids = torch.randint(0, 30, (4, 8))
        loss = F.cross_entropy(model(ids), ids[:, 0] % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.4f}")


def main():
    dist.init_process_group("gloo")
    run = os.environ.get("TORCHELASTIC_RUN_ID", "x") + "-" + os.environ.get("MASTER_PORT", "0")
    folder = os.path.join(tempfile.gettempdir(), f"reader-{run}")
    torch.manual_seed(0)
    try:
        pretrained(folder)
        finetune(folder)
    finally:
        if dist.get_rank() == 0:
            shutil.rmtree(folder, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
