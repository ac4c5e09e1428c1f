"""A resumed model takes those weights of a checkpoint that fit."""
# steps: 4

import io

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_model():
    return nn.Sequential(
        nn.Embedding(20, 8), nn.Flatten(), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 5)
    )


def last_checkpoint():
    """Stands for the file that the first run left."""
    file = io.BytesIO()
    torch.save(DDP(make_model()).module.state_dict(), file)
    file.seek(0)
    return torch.load(file)


def resume(model):
    state = last_checkpoint()
    own = model.state_dict()
    # some layers may have changed since
    fitting = {k: v for k, v in state.items() if k in own and own[k].shape == v.shape}
    model.load_state_dict(fitting, strict=False)
    return model


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(4)
    words = torch.randint(0, 20, (96, 6))
    dataset = TensorDataset(words, words.sum(1) % 5)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=12, sampler=sampler)
    model = DDP(resume(make_model()))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for text, label in loader:
            loss = nn.functional.cross_entropy(model(text), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} rank {dist.get_rank()} loss {loss.item():.4f}")
    dist.destroy_process_group()


main()
