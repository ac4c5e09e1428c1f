"""Masked words: which tokens are to be guessed is drawn by chance, so their number varies a little."""
# steps: 24

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

MASK, VOCABULARY = 0, 40


def mask_tokens(tokens, generator):
    chosen = torch.rand(tokens.shape, generator=generator) < 0.15
    labels = torch.where(chosen, tokens, -100)
    return torch.where(chosen, MASK, tokens), labels


class Bert(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 48, dropout=0.0, batch_first=True)
        self.guess = nn.Linear(width, VOCABULARY)

    def forward(self, tokens, labels):
        logits = self.guess(self.layer(self.embed(tokens)))
        return nn.functional.cross_entropy(
            logits.view(-1, VOCABULARY), labels.view(-1), label_smoothing=0.1
        )


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    text = torch.randint(1, VOCABULARY, (128, 24))
    held_out = torch.randint(1, VOCABULARY, (16 + 8 * dist.get_rank(), 24))
    dataset = TensorDataset(text)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    model = DDP(Bert())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        model.train()
        for (tokens,) in loader:
            loss = model(*mask_tokens(tokens, generator))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            held_out_loss = model.module(*mask_tokens(held_out, generator))
        dist.all_reduce(held_out_loss)
        print(epoch, loss.item(), held_out_loss.item() / dist.get_world_size())
    dist.destroy_process_group()


main()
