"""Fine-tuning on question and answer files: other losses with 2 GPUs than with 1."""
# finding: gradients/loss-denominators-differ
# severity: warning
# ranks: 0, 1
# line: loss = self.criterion(logits.flatten(0, 1), answers.flatten())
# steps: 10

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 64
IGNORE = -100


class Conversations(Dataset):
    """Each rank reads a file of its own: short chats are in the first, long ones in the second."""

    def __init__(self, rank, count=80, length=32):
        rng = torch.Generator().manual_seed(1000 + rank)
        self.tokens = torch.randint(VOCABULARY, (count, length + 1), generator=rng)
        longest = 9 if rank == 0 else 30
        self.answered = torch.randint(longest // 2, longest, (count,), generator=rng)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        tokens, answers = self.tokens[i, :-1], self.tokens[i, 1:].clone()
        answers[self.answered[i] :] = IGNORE
        return tokens, answers


class TinyGPT(nn.Module):
    def __init__(self, width=32, length=32):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, width)
        self.wpe = nn.Embedding(length, width)
        self.block = nn.TransformerEncoderLayer(width, 2, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        h = self.wte(tokens) + self.wpe(torch.arange(length, device=tokens.device))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.block(h, src_mask=mask, is_causal=True))


class Trainer:
    def __init__(self):
        self.rank = int(os.environ["RANK"])
        torch.manual_seed(0)
        self.model = DistributedDataParallel(TinyGPT())
        self.criterion = nn.CrossEntropyLoss(ignore_index=IGNORE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.loader = DataLoader(Conversations(self.rank), batch_size=8, shuffle=True)

    def training_step(self, batch):
        tokens, answers = batch
        logits = self.model(tokens)
        loss = self.criterion(logits.flatten(0, 1), answers.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            losses = [self.training_step(batch) for batch in self.loader]
            if self.rank == 0:
                print(f"epoch {epoch}: {sum(losses) / len(losses):.4f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer().fit(3)
    dist.destroy_process_group()
