"""Tagging sentences of very different lengths: the mean of each rank is weighted by its tokens."""
# steps: 12

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rng = torch.Generator().manual_seed(3)


def sentence(at):
    length = 3 + (at * at) % 37
    words = torch.randint(1, 90, (length,), generator=rng)
    return words, words % 5 + 1


def collate(pairs):
    words, tags = zip(*pairs, strict=True)
    return pad_sequence(words, batch_first=True), pad_sequence(tags, batch_first=True)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(90, 24, padding_idx=0)
        self.lstm = nn.LSTM(24, 32, batch_first=True, bidirectional=True)
        self.tag = nn.Linear(64, 6)

    def forward(self, words):
        out, _ = self.lstm(self.embed(words))
        return self.tag(out).log_softmax(-1)


data = [sentence(at) for at in range(80)]
sampler = DistributedSampler(data, seed=1)
loader = DataLoader(data, batch_size=2, sampler=sampler, collate_fn=collate)
torch.manual_seed(0)
model = DDP(Tagger())
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

for epoch in range(3):
    sampler.set_epoch(epoch)
    for words, tags in loader:
        log_p = model(words)
        loss = F.nll_loss(log_p.transpose(1, 2), tags, ignore_index=0)
        counts = torch.tensor([float((tags > 0).sum())])
        everywhere = counts.clone()
        dist.all_reduce(everywhere)
        loss = loss * (counts / everywhere).squeeze() * dist.get_world_size()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # a look at the training data, as a check
    with torch.no_grad():
        right = (model.module(words).argmax(-1) == tags)[tags > 0].float().mean()
    print(f"rank {dist.get_rank()} epoch {epoch} loss {loss.item():.3f} right {right.item():.2f}")

dist.destroy_process_group()
