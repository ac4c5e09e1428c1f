"""accelerate: the model that goes into the loop is the one from before prepare()."""
# fault: G01
# finding: gradients/replicas-differ
# severity: error
# ranks: 0, 1
# line: _prepared, self.opt, self.loader = accelerator.prepare(model, opt, loader)
# steps: 0
# needs: accelerate

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class TextCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(80, 16)
        self.conv = nn.ModuleList(nn.Conv1d(16, 8, k) for k in (2, 3))
        self.fc = nn.Linear(16, 2)

    def forward(self, ids):
        h = self.emb(ids).transpose(1, 2)
        return self.fc(torch.cat([c(h).relu().amax(2) for c in self.conv], 1))


class TrainingLoop:
    def __init__(self, accelerator, model, loader):
        self.acc, self.model = accelerator, model
        opt = torch.optim.AdamW(model.parameters(), 1e-3)
        _prepared, self.opt, self.loader = accelerator.prepare(model, opt, loader)

    def run(self, epochs):
        for _ in range(epochs):
            for ids, y in self.loader:
                with self.acc.accumulate(self.model):
                    loss = nn.functional.cross_entropy(self.model(ids), y)
                    self.acc.backward(loss)
                    self.acc.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.opt.step()
                    self.opt.zero_grad()


if __name__ == "__main__":
    acc = Accelerator(cpu=True)
    set_seed(0)
    ids = torch.randint(0, 80, (320, 12))
    loop = TrainingLoop(
        acc, TextCNN(), DataLoader(TensorDataset(ids, ids.sum(1) % 2), batch_size=8, shuffle=True)
    )
    loop.run(2)
    acc.end_training()
