"""Batches in each container, and a loss that comes from the model: plain trainings."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset


class Words(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.randint(0, 100, (12,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids.clone(), "length": 12}


@dataclass
class Output:
    loss: torch.Tensor | None
    logits: torch.Tensor


class CausalLM(nn.Module):
    """Takes and returns what models of the transformers library do."""

    def __init__(self, vocabulary=100, width=24):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.block = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.lm_head = nn.Linear(width, vocabulary)

    def forward(self, input_ids, labels=None, **_unused):
        mask = nn.Transformer.generate_square_subsequent_mask(input_ids.shape[1])
        hidden = self.block(self.embed_tokens(input_ids), src_mask=mask, is_causal=True)
        logits = self.lm_head(hidden)
        loss = None
        if labels is not None:
            loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return Output(loss, logits)


def loss_from_the_model():
    words = Words()
    loader = DataLoader(words, batch_size=8, sampler=DistributedSampler(words))
    model = CausalLM()
    return model, loader, lambda model, batch: model(**batch).loss


def dict_batches():
    words = Words()
    loader = DataLoader(words, batch_size=8, sampler=DistributedSampler(words))
    model = nn.Sequential(nn.Embedding(100, 8), nn.Flatten(), nn.Linear(96, 100))

    def loss(model, batch):
        return functional.cross_entropy(model(batch["input_ids"]), batch["labels"][:, -1])

    return model, loader, loss


def tuple_batches():
    dataset = TensorDataset(torch.randn(80, 5), torch.randn(80))
    sampler = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(dataset, batch_size=16, sampler=sampler, num_workers=0, drop_last=True)

    def huber(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x, y = batch
        return functional.huber_loss(model(x).squeeze(-1), y)

    model = nn.Linear(5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    return model, loader, huber, optimizer


class Sample(NamedTuple):
    image: torch.Tensor
    label: torch.Tensor


def named_tuple_batches():
    def stream():
        for step in range(10):
            torch.manual_seed(10 * step + dist.get_rank())
            yield Sample(image=torch.rand(6, 3, 8, 8), label=torch.randint(0, 4, (6,)))

    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))
    return model, list(stream()), lambda net, b: functional.cross_entropy(net(b.image), b.label)


def list_of_tensors():
    torch.manual_seed(dist.get_rank())
    loader = [torch.randn(4, 6) for _ in range(3)]
    model = nn.Sequential(nn.Linear(6, 2), nn.Linear(2, 6))
    return model, loader, lambda model, batch: ((model(batch) - batch) ** 2).mean()


def texts_beside_tensors() -> tuple[Any, ...]:
    def collate(rows):
        return {"x": torch.stack([row[0] for row in rows]), "name": [row[1] for row in rows]}

    rows = [(torch.randn(3), f"file-{number}.wav") for number in range(24)]
    loader = DataLoader(rows, batch_size=4, collate_fn=collate, sampler=DistributedSampler(rows))
    return nn.Linear(3, 1), loader, lambda model, batch: model(batch["x"]).pow(2).mean()
