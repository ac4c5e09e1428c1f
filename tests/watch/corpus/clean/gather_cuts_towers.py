"""Pictures and captions, with what the other rank has as further negatives."""
# steps: 12

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class TwoTowers(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.image = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 7 * 7, dim)
        )
        self.words = nn.EmbeddingBag(100, 32)
        self.text = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, dim))
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, image, caption):
        image = F.normalize(self.image(image), dim=-1)
        text = F.normalize(self.text(self.words(caption)), dim=-1)
        return image, text, self.logit_scale.exp()


def gather_features(features):
    gathered = [torch.zeros_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, features)
    gathered[dist.get_rank()] = features  # with its gradient
    return torch.cat(gathered)


def image_to_text(image, text, scale):
    logits = scale * image @ gather_features(text).t()
    labels = torch.arange(len(image)) + len(image) * dist.get_rank()
    return F.cross_entropy(logits, labels)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(11)
    images, captions = torch.randn(96, 3, 16, 16), torch.randint(100, (96, 6))
    data = TensorDataset(images, captions)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler, drop_last=True)
    model = DDP(TwoTowers(), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for image, caption in loader:
            loss = image_to_text(*model(image, caption))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
