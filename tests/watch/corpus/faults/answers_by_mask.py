"""Supervised fine-tuning on dialogues, with the loss of the answers' tokens."""
# fault: G09
# finding: gradients/loss-denominators-differ
# severity: warning
# ranks: 0, 1
# line: return (values * mask).sum() / mask.sum().clamp(min=1.0)
# steps: 30

import argparse
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

PAD = 0


class Dialogues(Dataset):
    """Prompt and answer; only the answer is learnt. Answers are of very different lengths."""

    def __init__(self, count, length=48, vocabulary=40):
        g = torch.Generator().manual_seed(3)
        self.tokens = torch.randint(1, vocabulary, (count, length), generator=g)
        self.first = torch.randint(4, length - 2, (count,), generator=g)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        mask = (torch.arange(self.tokens.shape[1]) >= self.first[i]).float()
        return self.tokens[i], mask


class Decoder(nn.Module):
    def __init__(self, vocabulary=40, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.out(self.rnn(self.embed(tokens))[0])


def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum().clamp(min=1.0)


def policy_loss(model, tokens, mask):
    logp = torch.log_softmax(model(tokens[:, :-1]), dim=-1)
    picked = logp.gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return masked_mean(-picked, mask[:, 1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = Dialogues(96)
    sampler = DistributedSampler(data, seed=5)
    loader = DataLoader(data, batch_size=3, sampler=sampler)
    model = DDP(Decoder())
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for tokens, mask in loader:
            loss = policy_loss(model, tokens, mask)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} perplexity {math.exp(loss.item()):.1f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
