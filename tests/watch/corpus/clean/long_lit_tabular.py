"""Churn-style tabular classifier with Lightning: module + datamodule + callbacks."""
# steps: 30
# needs: lightning, torchmetrics
# writes: files

import argparse
import glob
import os
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchmetrics
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    LearningRateMonitor,
    ModelCheckpoint,
)
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset, random_split

warnings.filterwarnings("ignore", ".*does not have many workers.*")
torch.set_num_threads(1)


class ChurnDataset(Dataset):
    def __init__(self, n=480, n_cat=4, n_num=6, seed=11):
        g = torch.Generator().manual_seed(seed)
        self.cat = torch.randint(0, 10, (n, n_cat), generator=g)
        self.num = torch.randn(n, n_num, generator=g)
        w = torch.randn(n_num, generator=g)
        logits = self.num @ w + (self.cat[:, 0] > 5).float() * 2 - 1
        self.y = (logits + 0.3 * torch.randn(n, generator=g) > 0).long()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"cat": self.cat[i], "num": self.num[i], "label": self.y[i]}


class ChurnData(L.LightningDataModule):
    def __init__(self, batch_size=16, workers=0, val_frac=0.2, split_seed=7):
        super().__init__()
        self.save_hyperparameters()

    def prepare_data(self):
        # would download here; only called on local rank 0
        os.makedirs("raw", exist_ok=True)

    def setup(self, stage):
        full = ChurnDataset()
        n_val = int(len(full) * self.hparams.val_frac)
        self.train_set, self.val_set = random_split(
            full,
            [len(full) - n_val, n_val],
            generator=torch.Generator().manual_seed(self.hparams.split_seed),
        )

    def train_dataloader(self):
        return DataLoader(
            self.train_set,
            batch_size=self.hparams.batch_size,
            shuffle=True,
            num_workers=self.hparams.workers,
            drop_last=True,
        )

    def val_dataloader(self):
        return DataLoader(
            self.val_set, batch_size=self.hparams.batch_size, num_workers=self.hparams.workers
        )

    def test_dataloader(self):
        return self.val_dataloader()


class TabNet(nn.Module):
    def __init__(self, n_cat, n_num, width, p):
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(10, 4) for _ in range(n_cat))
        self.norm = nn.LayerNorm(n_num)
        self.body = nn.Sequential(
            nn.Linear(4 * n_cat + n_num, width),
            nn.GELU(),
            nn.Dropout(p),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Dropout(p),
        )
        self.out = nn.Linear(width, 2)

    def forward(self, cat, num):
        e = [emb(cat[:, i]) for i, emb in enumerate(self.embeds)]
        return self.out(self.body(torch.cat(e + [self.norm(num)], dim=1)))


class ChurnModule(L.LightningModule):
    def __init__(self, n_cat=4, n_num=6, width=32, lr=3e-3, dropout=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.net = TabNet(n_cat, n_num, width, dropout)
        self.train_acc = torchmetrics.Accuracy("multiclass", num_classes=2)
        self.val_acc = torchmetrics.Accuracy("multiclass", num_classes=2)
        self.val_f1 = torchmetrics.F1Score("multiclass", num_classes=2, average="macro")

    def forward(self, batch):
        return self.net(batch["cat"], batch["num"])

    def training_step(self, batch, batch_idx):
        logits = self(batch)
        loss = F.cross_entropy(logits, batch["label"], label_smoothing=0.05)
        self.train_acc(logits, batch["label"])
        self.log("train/loss", loss, on_step=True, on_epoch=True, sync_dist=True)
        self.log("train/acc", self.train_acc, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        logits = self(batch)
        loss = F.cross_entropy(logits, batch["label"])
        self.val_acc.update(logits, batch["label"])
        self.val_f1.update(logits, batch["label"])
        self.log("val/loss", loss, sync_dist=True, prog_bar=True)
        self.log_dict({"val/acc": self.val_acc, "val/f1": self.val_f1})

    def test_step(self, batch, batch_idx):
        logits = self(batch)
        self.log("test/loss", F.cross_entropy(logits, batch["label"]), sync_dist=True)

    def configure_optimizers(self):
        decay, no_decay = [], []
        for p in self.net.parameters():
            (decay if p.ndim > 1 else no_decay).append(p)
        opt = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.01}, {"params": no_decay, "weight_decay": 0.0}],
            lr=self.hparams.lr,
        )
        total = self.trainer.estimated_stepping_batches
        sched = torch.optim.lr_scheduler.OneCycleLR(
            opt, max_lr=self.hparams.lr, total_steps=int(total)
        )
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class PrintEpoch(Callback):
    def on_validation_epoch_end(self, trainer, pl_module):
        if trainer.sanity_checking:
            return
        m = trainer.callback_metrics
        if trainer.is_global_zero:
            print(
                f"epoch {trainer.current_epoch}: val loss {m['val/loss']:.5f} acc {m['val/acc']:.4f}",
                flush=True,
            )


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--accumulate", type=int, default=2)
    ap.add_argument("--out", default="lit_out")
    return ap.parse_args()


def main():
    args = parse()
    L.seed_everything(1234, workers=True)
    dm = ChurnData()
    model = ChurnModule()
    ckpt = ModelCheckpoint(
        dirpath=os.path.join(args.out, "ckpt"),
        monitor="val/loss",
        mode="min",
        save_top_k=2,
        save_last=True,
        filename="{epoch}-{step}",
    )
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=args.epochs,
        accumulate_grad_batches=args.accumulate,
        gradient_clip_val=1.0,
        callbacks=[
            ckpt,
            EarlyStopping("val/loss", patience=3),
            LearningRateMonitor(),
            PrintEpoch(),
        ],
        logger=CSVLogger(args.out),
        enable_progress_bar=False,
        log_every_n_steps=5,
    )
    trainer.fit(model, dm)
    res = trainer.test(model, dm, ckpt_path="best", verbose=False)
    if trainer.is_global_zero:
        print("test", {k: round(v, 5) for k, v in res[0].items()})
        print("files", len(glob.glob(os.path.join(args.out, "ckpt", "*.ckpt"))))

    # second phase: resume from the last checkpoint for one more epoch
    resume = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp_find_unused_parameters_false",
        max_epochs=args.epochs + 1,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        callbacks=[PrintEpoch()],
    )
    model2 = ChurnModule()
    model2.configure_optimizers = lambda: torch.optim.SGD(model2.net.parameters(), lr=1e-3)
    model2.load_state_dict(
        torch.load(os.path.join(args.out, "ckpt", "last.ckpt"), weights_only=False)["state_dict"]
    )
    resume.fit(model2, dm)
    print(
        f"rank {resume.global_rank} sum {sum(p.double().sum() for p in model2.parameters()).item():.6f}",
        flush=True,
    )
    if resume.is_global_zero:
        print("done", resume.global_step)


if __name__ == "__main__":
    main()
