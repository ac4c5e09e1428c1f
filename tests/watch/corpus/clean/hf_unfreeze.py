"""accelerate + accumulation: linear probing first, then full fine-tuning (LP-FT)."""
# steps: 30
# needs: accelerate

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


class Backbone(nn.Module):
    def __init__(self, d=40):
        super().__init__()
        self.l1, self.l2 = nn.Linear(20, d), nn.Linear(d, d)

    def forward(self, x):
        return torch.relu(self.l2(torch.relu(self.l1(x))))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = Backbone(), nn.Linear(40, 3)

    def forward(self, x, labels=None):
        logits = self.head(self.backbone(x))
        return logits if labels is None else (nn.functional.cross_entropy(logits, labels), logits)


class LPFT:
    def __init__(self, accum=2):
        self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accum)
        set_seed(7)
        g = torch.Generator().manual_seed(0)
        X = torch.randn(1024, 20, generator=g)
        Y = torch.bucketize(X[:, 0] + X[:, 1] ** 2, torch.tensor([0.0, 1.2]))
        self.loader = DataLoader(TensorDataset(X, Y), 16, shuffle=True, drop_last=True)
        self.model = Classifier()
        self.model.backbone.requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-3)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(
            self.model, self.optimizer, self.loader
        )

    def start_phase(self, name):
        self.accelerator.print("phase", name)
        if name == "ft":
            core = self.accelerator.unwrap_model(self.model)
            core.backbone.requires_grad_(True)
            self.model = self.accelerator.prepare(core)

    def epoch(self):
        for x, y in self.loader:
            with self.accelerator.accumulate(self.model):
                loss, _ = self.model(x, labels=y)
                self.accelerator.backward(loss)
                self.optimizer.step()
                self.optimizer.zero_grad()
        mean = self.accelerator.gather(loss.detach().unsqueeze(0)).mean()
        self.accelerator.print(f"loss {mean.item():.4f}")

    def run(self):
        self.start_phase("lp")
        self.epoch()
        self.start_phase("ft")
        self.epoch()


if __name__ == "__main__":
    torch.set_num_threads(1)
    LPFT().run()
