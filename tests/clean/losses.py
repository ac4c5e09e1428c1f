"""Losses that are no plain mean over a rank's own samples."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional


def tokens_counted_over_all_ranks():
    lengths = {0: 2, 1: 8}
    torch.manual_seed(dist.get_rank())
    labels = torch.randint(0, 30, (4, 8))
    labels[:, lengths[dist.get_rank()] :] = -100
    batch = {"ids": torch.randint(0, 30, (4, 8)), "labels": labels}

    def loss(model, batch):
        total = functional.cross_entropy(
            model(batch["ids"]).flatten(0, 1), batch["labels"].flatten(), reduction="sum"
        )
        count = (batch["labels"] != -100).sum()
        dist.all_reduce(count)
        return total * dist.get_world_size() / count

    return nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 30)), [batch] * 3, loss


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 8))
        self.temperature = nn.Parameter(torch.tensor(2.0))

    def forward(self, pair):
        return functional.normalize(self.layers(pair), dim=-1), self.temperature.exp()


def contrastive_over_all_ranks():
    """CLIP's loss: the negatives come from every rank, the gradient flows to the own part."""

    def gathered(mine):
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, mine.detach().contiguous())
        parts[dist.get_rank()] = mine
        return torch.cat(parts)

    def loss(model, batch):
        features, scale = model(batch)
        left, right = features[:, 0], features[:, 1]
        labels = torch.arange(len(left)) + dist.get_rank() * len(left)
        return (
            functional.cross_entropy(scale * left @ gathered(right).t(), labels)
            + functional.cross_entropy(scale * right @ gathered(left).t(), labels)
        ) / 2

    torch.manual_seed(dist.get_rank())
    return Encoder(), [torch.randn(6, 2, 12) for _ in range(4)], loss


def padded_to_its_own_length():
    """Each batch is as long as its longest text: other ranks have other lengths."""
    torch.manual_seed(dist.get_rank())
    batches = [
        {
            "ids": torch.randint(0, 40, (4, 5 + 3 * dist.get_rank() + number)),
            "label": torch.randint(0, 2, (4,)),
        }
        for number in range(4)
    ]

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(40, 16, padding_idx=0)
            self.head = nn.Linear(16, 2)

        def forward(self, ids):
            return self.head(self.words(ids).mean(dim=1))

    def loss(model, batch):
        return functional.cross_entropy(model(batch["ids"]), batch["label"])

    return Classifier(), batches, loss


def autocast():
    """Parameters in float32, compute in bfloat16: its gradients are off by its rounding."""

    def loss(model, batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            prediction = model(batch)
        return functional.mse_loss(prediction.float(), batch)

    torch.manual_seed(dist.get_rank())
    model = nn.Sequential(
        nn.Linear(12, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 12)
    )
    return model, [torch.randn(8, 12) for _ in range(4)], loss
