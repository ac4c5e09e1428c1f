"""A classifier that starts from a detector's weights learns no faster than from scratch."""
# finding: checkpoint/nothing-loaded
# severity: warning
# ranks: 0, 1
# line: missing = self.net.load_state_dict(weights, strict=False).missing_keys
# steps: 5

import io

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def block(ins, outs):
    return nn.Sequential(nn.Conv2d(ins, outs, 3, padding=1), nn.GroupNorm(2, outs), nn.ReLU())


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = block(1, 4)
        self.stage1 = block(4, 8)
        self.stage2 = block(8, 8)

    def forward(self, x):
        return self.stage2(self.stage1(self.stem(x))).mean(dim=(2, 3))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Body()
        self.boxes = nn.Linear(8, 4)


class Classifier(Body):
    def __init__(self, classes=3):
        super().__init__()
        self.boxes = nn.Identity()
        self.logits = nn.Linear(8, classes)

    def forward(self, x):
        return self.logits(super().forward(x))


def published():
    """Stands for the file from the model zoo."""
    file = io.BytesIO()
    torch.save({"state_dict": Detector().state_dict(), "epoch": 12}, file)
    file.seek(0)
    return file


class Finetuning:
    def __init__(self, lr=0.05):
        self.rank = dist.get_rank()
        self.net = Classifier()
        weights = torch.load(published(), map_location="cpu")["state_dict"]
        missing = self.net.load_state_dict(weights, strict=False).missing_keys
        if self.rank == 0:
            print(f"starting from the detector, {len(missing)} tensors of its own")
        self.net = DistributedDataParallel(self.net)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr, momentum=0.9)

    def run(self, steps):
        images = torch.Generator().manual_seed(self.rank)
        for step in range(steps):
            x = torch.rand(6, 1, 12, 12, generator=images)
            y = (x.mean(dim=(1, 2, 3)) * 3).long().clamp(0, 2)
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.rank == 0:
                print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(9)
    Finetuning().run(8)
    dist.destroy_process_group()
