"""Trainings that draw random numbers in their forward or loss: each pass gives another loss."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional


def noise(*shape, count=6):
    generator = torch.Generator().manual_seed(dist.get_rank())
    return [torch.randn(*shape, generator=generator) for _ in range(count)]


def reconstruct(model, batch):
    return functional.mse_loss(model(batch), batch)


class Attention(nn.Module):
    """Dropout without a module of its own, as in nanoGPT."""

    def __init__(self, width=16, heads=2, p=0.2):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads, self.p = heads, p

    def forward(self, x):
        batch, time, width = x.shape
        split = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        p = self.p if self.training else 0.0
        y = functional.scaled_dot_product_attention(*split, is_causal=True, dropout_p=p)
        y = self.out(y.transpose(1, 2).reshape(batch, time, width))
        return functional.dropout(y, self.p, training=self.training)


def dropout_by_function():
    return Attention(), noise(4, 6, 16), reconstruct


class StochasticDepth(nn.Module):
    def __init__(self, block, p):
        super().__init__()
        self.block, self.p = block, p

    def forward(self, x):
        if not self.training:
            return x + self.block(x)
        keep = torch.bernoulli(torch.full((len(x), 1), 1 - self.p))
        return x + self.block(x) * keep / (1 - self.p)


def stochastic_depth():
    blocks = [StochasticDepth(nn.Sequential(nn.Linear(16, 16), nn.Tanh()), 0.3) for _ in range(2)]
    return nn.Sequential(*blocks), noise(16, 16), reconstruct


def multihead_attention_with_dropout():
    model = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.3, batch_first=True)
    return model, noise(4, 5, 16), reconstruct


def lstm_with_dropout():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(16, 16, num_layers=2, dropout=0.4, batch_first=True)

        def forward(self, x):
            return self.rnn(x)[0]

    return Tagger(), noise(4, 7, 16), reconstruct


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(16, 8)
        self.decode = nn.Linear(4, 16)

    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, dim=-1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        kl = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(-1).mean()
        return self.decode(z), kl


def variational():
    def elbo(model, batch):
        decoded, kl = model(batch)
        return functional.mse_loss(decoded, batch) + 0.1 * kl

    return Variational(), noise(8, 16), elbo


def diffusion():
    model = nn.Sequential(nn.Linear(17, 64), nn.SiLU(), nn.Linear(64, 16))

    def denoise(model, x):
        t = torch.rand(len(x), 1)
        eps = torch.randn_like(x)
        return functional.mse_loss(model(torch.cat([(1 - t) * x + t * eps, t], dim=1)), eps)

    return model, noise(8, 16), denoise
