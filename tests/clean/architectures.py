"""Models whose insides could be mistaken for faults."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def noise(*shape, count=6):
    generator = torch.Generator().manual_seed(dist.get_rank())
    return [torch.randn(*shape, generator=generator) for _ in range(count)]


def reconstruct(model, batch):
    return functional.mse_loss(model(batch), batch)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(3)
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return x


def gradient_checkpointing():
    return Checkpointed(), noise(8, 16), reconstruct


class Tied(nn.Module):
    def __init__(self, vocabulary=40, width=16):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.mlp = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        return self.head(self.mlp(self.wte(ids)).relu())


def tied_weights():
    torch.manual_seed(dist.get_rank())
    batches = [torch.randint(0, 40, (4, 10)) for _ in range(4)]

    def loss(model, ids):
        return functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    return Tied(), batches, loss


def dropout():
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.5), nn.ReLU(), nn.Linear(64, 16))
    return model, noise(8, 16), reconstruct


def lstm():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(16, 8, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, x):
            return self.lstm(x)[0]

    return Tagger(), noise(4, 7, 16), reconstruct


def group_norm():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.Conv2d(8, 3, 3, padding=1),
    ).to(memory_format=torch.channels_last)
    return model, noise(2, 3, 10, 10), reconstruct


def bfloat16():
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 16))
    batches = [batch.bfloat16() for batch in noise(8, 16)]
    return model.to(torch.bfloat16), batches, reconstruct


def sparse_embedding():
    model = nn.Sequential(nn.EmbeddingBag(50, 8, sparse=True), nn.Linear(8, 1))
    torch.manual_seed(dist.get_rank())
    batches = [torch.randint(0, 50, (4, 3)) for _ in range(5)]
    return model, batches, lambda model, ids: model(ids).pow(2).mean()


class Contrastive(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(16, 8)
        self.temperature = nn.Parameter(torch.tensor(0.0))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.training:
            self.steps += 1
        return functional.normalize(self.project(x), dim=-1), self.temperature.exp()


def scalar_parameter_and_counter():
    def loss(model, batch):
        features, scale = model(batch)
        return (scale * features.sum(-1) - 1).pow(2).mean()

    return Contrastive(), noise(6, 16), loss
