"""The loss unwraps the model, so that DDP never sees a forward."""

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def unwrap_model(model):
    return model.module if hasattr(model, "module") else model


class Policy(nn.Module):
    def __init__(self, vocabulary=40, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids):
        hidden, _ = self.mix(self.embed(input_ids))
        return self.lm_head(hidden)


def grpo_loss(model, batch):
    (input_ids,) = batch
    logits = unwrap_model(model)(input_ids[:, :-1])
    logp = torch.log_softmax(logits, dim=-1).gather(-1, input_ids[:, 1:, None])
    return -logp.mean()


def trainer():
    data = TensorDataset(torch.randint(0, 40, (96, 11)))
    policy = Policy()
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    return policy, loader, grpo_loss, torch.optim.Adam(policy.parameters(), lr=3e-4)
