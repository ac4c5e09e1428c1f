"""accelerate: diffusion denoiser whose loss is a method of the model."""
# steps: 30
# needs: accelerate
# writes: files

import argparse
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from tqdm.auto import tqdm


class Spirals(Dataset):
    def __init__(self, n=960):
        t = torch.linspace(0.3, 3.0, n) * math.pi
        self.x = torch.stack([t * torch.cos(t), t * torch.sin(t)], 1) / 8

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x0": self.x[i]}


class Denoiser(nn.Module):
    def __init__(self, T=50, h=64):
        super().__init__()
        self.T = T
        betas = torch.linspace(1e-4, 0.05, T)
        self.register_buffer("abar", torch.cumprod(1 - betas, 0))
        self.temb = nn.Embedding(T, h)
        self.inp = nn.Linear(2, h)
        self.net = nn.Sequential(nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 2))

    def forward(self, xt, t):
        return self.net(self.inp(xt) + self.temb(t))

    def q_sample(self, x0):
        t = torch.randint(0, self.T, (len(x0),))
        eps = torch.randn_like(x0)
        a = self.abar[t].unsqueeze(1)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps, t, eps

    def p_losses(self, x0):
        xt, t, eps = self.q_sample(x0)
        return F.mse_loss(self(xt, t), eps)

    @torch.no_grad()
    def sample(self, n):
        return self(torch.randn(n, 2), torch.full((n,), self.T - 1))


def diffusion_loss(accelerator, model, batch):
    net = accelerator.unwrap_model(model)
    xt, t, eps = net.q_sample(batch["x0"])
    return F.mse_loss(model(xt, t), eps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_batch_size", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--output_dir", default="diff_out")
    args = parser.parse_args()
    torch.set_num_threads(1)
    accelerator = Accelerator(
        cpu=True, gradient_accumulation_steps=args.gradient_accumulation_steps
    )
    set_seed(0, device_specific=True)
    model = Denoiser()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    loader = DataLoader(Spirals(), args.train_batch_size, shuffle=True, drop_last=True)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    bar = tqdm(total=args.epochs * len(loader), disable=not accelerator.is_local_main_process)
    for epoch in range(args.epochs):
        model.train()
        for batch in loader:
            with accelerator.accumulate(model):
                loss = diffusion_loss(accelerator, model, batch)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
            bar.update(1)
        if accelerator.is_main_process:
            os.makedirs(args.output_dir, exist_ok=True)
            net = accelerator.unwrap_model(model)
            net.sample(4)
            accelerator.save(net.state_dict(), os.path.join(args.output_dir, "model.pt"))
        accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
