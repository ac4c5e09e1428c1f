"""Two GPUs take as long as one; rank 0's utilisation is at ten percent, and its profile is all NCCL."""
# finding: performance/waits-for-one-rank
# severity: warning
# ranks: 1
# line: for tokens, label in self.loader:
# steps: 20

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

NETWORK_LATENCY = 0.012


class Reviews(Dataset):
    """Sentences from files; those on scratch are fast, the others come over the network."""

    def __init__(self, on_scratch, count=256, length=12, vocabulary=80):
        g = torch.Generator().manual_seed(7)
        self.on_scratch = on_scratch
        self.tokens = torch.randint(vocabulary, (count, length), generator=g)
        self.labels = (self.tokens.float().mean(1) > vocabulary / 2).long()

    def __len__(self):
        return len(self.tokens)

    def read(self, i):
        if not self.on_scratch:
            time.sleep(NETWORK_LATENCY)
        return self.tokens[i]

    def __getitem__(self, i):
        return self.read(i), self.labels[i]


class Classifier(nn.Module):
    def __init__(self, vocabulary=80, width=32, classes=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)).mean(1))


class Trainer:
    def __init__(self, rank, epochs=4):
        self.epochs = epochs
        self.rank = rank
        # the archive was unpacked to the scratch disk by rank 0, for itself
        data = Reviews(on_scratch=rank == 0)
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=8, sampler=self.sampler)
        self.model = DistributedDataParallel(Classifier())
        self.optim = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def fit(self):
        for epoch in range(self.epochs):
            self.sampler.set_epoch(epoch)
            for tokens, label in self.loader:
                loss = nn.functional.cross_entropy(self.model(tokens), label)
                self.optim.zero_grad()
                loss.backward()
                self.optim.step()
            print(f"rank {self.rank} epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    Trainer(dist.get_rank()).fit()
    dist.destroy_process_group()
