# steps: 30
# silent: gradients/later-training-unseen
# needs: lightning
# writes: files

# GAN on synthetic "digits" with Lightning manual optimization (two optimizers, toggled).
import copy
from collections import OrderedDict

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
LATENT = 16
IMG = (1, 12, 12)


def blobs(n, seed):
    """Gaussian blobs at random positions, scaled to [-1, 1]."""
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
    c = torch.rand(n, 2, generator=g) * 6 + 3
    d = (yy[None] - c[:, 0, None, None]) ** 2 + (xx[None] - c[:, 1, None, None]) ** 2
    return (torch.exp(-d / 4.0) * 2 - 1).unsqueeze(1)


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.GroupNorm):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.fc = nn.Linear(latent, 32 * 3 * 3)
        self.net = nn.Sequential(
            nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False),
            nn.GroupNorm(4, 16),
            nn.ReLU(True),
            nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False),
            nn.GroupNorm(4, 8),
            nn.ReLU(True),
            nn.Conv2d(8, 1, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.net(self.fc(z).view(-1, 32, 3, 3))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        sn = nn.utils.parametrizations.spectral_norm
        self.conv = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(8, 16, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
        )
        self.head = nn.Linear(16 * 9, 1)

    def forward(self, x):
        return self.head(self.conv(x))


class BlobGAN(pl.LightningModule):
    def __init__(self, lr=2e-4, b1=0.5, b2=0.999, d_steps=1):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.generator = Generator(LATENT)
        self.discriminator = Discriminator()
        self.generator.apply(weights_init)
        self.discriminator.apply(weights_init)
        self.register_buffer(
            "fixed_z", torch.randn(8, LATENT, generator=torch.Generator().manual_seed(3))
        )
        self.bce = nn.BCEWithLogitsLoss()
        self.noise = None

    def on_fit_start(self):
        # every rank draws its own latents
        self.noise = torch.Generator().manual_seed(1000 + self.global_rank)

    def forward(self, z):
        return self.generator(z)

    def adversarial(self, logits, real):
        target = torch.ones_like(logits) if real else torch.zeros_like(logits)
        return self.bce(logits, target)

    def training_step(self, batch, batch_idx):
        (real,) = batch
        opt_g, opt_d = self.optimizers()
        z = torch.randn(real.size(0), LATENT, generator=self.noise).to(self.device)

        # -- generator
        self.toggle_optimizer(opt_g)
        fake = self(z)
        g_loss = self.adversarial(self.discriminator(fake), True)
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        opt_g.step()
        self.untoggle_optimizer(opt_g)

        # -- discriminator
        self.toggle_optimizer(opt_d)
        for _ in range(self.hparams.d_steps):
            real_loss = self.adversarial(self.discriminator(real), True)
            fake_loss = self.adversarial(self.discriminator(self(z).detach()), False)
            d_loss = 0.5 * (real_loss + fake_loss)
            opt_d.zero_grad()
            self.manual_backward(d_loss)
            self.clip_gradients(opt_d, gradient_clip_val=5.0, gradient_clip_algorithm="norm")
            opt_d.step()
        self.untoggle_optimizer(opt_d)
        self.log_dict(
            OrderedDict(g_loss=g_loss.detach(), d_loss=d_loss.detach()),
            on_epoch=True,
            on_step=False,
            sync_dist=True,
        )

        sch_g, sch_d = self.lr_schedulers()
        if self.trainer.is_last_batch:
            sch_g.step()
            sch_d.step()

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        with torch.no_grad():
            imgs = self.generator(self.fixed_z)
        self.print(
            f"[{self.current_epoch}] g {m['g_loss']:.5f} d {m['d_loss']:.5f} mean pix {imgs.mean():.5f}"
        )

    def validation_step(self, batch, batch_idx):
        (real,) = batch
        score = torch.sigmoid(self.discriminator(real)).mean()
        self.log("val_real_score", score, sync_dist=True, on_epoch=True)

    def configure_optimizers(self):
        h = self.hparams
        og = torch.optim.Adam(self.generator.parameters(), lr=h.lr, betas=(h.b1, h.b2))
        od = torch.optim.Adam(self.discriminator.parameters(), lr=h.lr, betas=(h.b1, h.b2))
        return [og, od], [
            torch.optim.lr_scheduler.StepLR(og, 1, 0.9),
            torch.optim.lr_scheduler.StepLR(od, 1, 0.9),
        ]


def main():
    pl.seed_everything(5)
    train = DataLoader(TensorDataset(blobs(192, 1)), batch_size=12, shuffle=True, drop_last=True)
    val = DataLoader(TensorDataset(blobs(48, 2)), batch_size=12)
    gan = BlobGAN()
    # G and D see the loss in alternation, so a part of the parameters has no grad in each backward
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        max_epochs=3,
        strategy=DDPStrategy(find_unused_parameters=True, process_group_backend="gloo"),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(gan, train, val)
    total = sum(p.detach().double().abs().sum() for p in gan.parameters()).item()
    print(f"rank {trainer.global_rank} weights {total:.6f}", flush=True)
    if trainer.is_global_zero:
        print("val score", round(float(trainer.callback_metrics["val_real_score"]), 5))
        best = copy.deepcopy(gan.generator.state_dict())
        torch.save(best, "generator.pt")
        print("saved", len(best))


if __name__ == "__main__":
    main()
