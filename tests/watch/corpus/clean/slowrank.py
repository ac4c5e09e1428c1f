"""Speech recogniser: utterances sorted by length, decoded on the fly."""
# steps: 30

import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Subset


class Utterances(Dataset):
    """manifest is sorted by duration"""

    def __init__(self, n=400):
        self.manifest = [
            {"path": f"utt{i:04d}.flac", "frames": 20 + i // 4, "text": i % 7} for i in range(n)
        ]

    def __len__(self):
        return len(self.manifest)

    def decode(self, row):
        time.sleep(max(0.0, row["frames"] - 70) * 0.0006)  # flac decoding, grows with the length
        g = torch.Generator().manual_seed(row["frames"] * 31 + row["text"])
        return torch.randn(row["frames"], 8, generator=g) + row["text"] * 0.1

    def __getitem__(self, i):
        row = self.manifest[i]
        return self.decode(row)[:24], row["text"]


def collate(items):
    t = max(x.shape[0] for x, _ in items)
    out = torch.zeros(len(items), t, 8)
    for k, (x, _) in enumerate(items):
        out[k, : x.shape[0]] = x
    return out, torch.tensor([y for _, y in items])


class ASR(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 16, batch_first=True)
        self.ctc = nn.Linear(16, 7)

    def forward(self, x):
        return self.ctc(self.rnn(x)[0].mean(1))


class ShardBuilder:
    def __init__(self, ds, rank, world):
        self.ds, self.rank, self.world = ds, rank, world

    def build(self):
        return Subset(self.ds, range(self.rank, len(self.ds), self.world))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    shard = ShardBuilder(Utterances(), rank, world).build()
    loader = DataLoader(shard, batch_size=5, shuffle=True, collate_fn=collate)
    model = DDP(ASR())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    start = time.time()
    step = 0
    for epoch in range(1):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
    if rank == 0:
        print(
            f"{step} steps, {step / (time.time() - start):.1f} it/s, loss {loss.item():.3f}",
            flush=True,
        )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
