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


def lstm():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(16, 8, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, x):
            return self.lstm(x)[0]

    return Tagger(), noise(4, 7, 16), reconstruct


def lstm_with_dropout():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(16, 16, num_layers=2, dropout=0.4, batch_first=True)

        def forward(self, x):
            return self.rnn(x)[0]

    return Tagger(), noise(4, 7, 16), reconstruct


def group_norm():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.Conv2d(8, 3, 3, padding=1),
    ).to(memory_format=torch.channels_last)
    return model, noise(2, 3, 10, 10), reconstruct


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
