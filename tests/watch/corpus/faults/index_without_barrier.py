"""Ends with FileNotFoundError on all ranks but the first; the second start goes well."""
# fault: A13
# finding: data/missing-file
# severity: error
# ranks: 1
# line: self.starts = json.loads(index_file.read_text())
# steps: 12

import json
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Snippets(Dataset):
    """Windows of one long text, found by an index that is built once."""

    def __init__(self, index_file, text):
        self.starts = json.loads(index_file.read_text())
        self.text = text

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        window = self.text[self.starts[i] : self.starts[i] + 17]
        return window[:-1], window[1:]


def build_index(index_file, text):
    starts = []
    for start in range(0, len(text) - 17, 16):
        if not start % 320:
            time.sleep(0.2)  # reading a slow disk
        starts.append(start)
    index_file.write_text(json.dumps(starts))


def job_folder():
    """Return one folder for this job, the same on all ranks."""
    name = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(name)
    return Path(name[0])


def prepare(text):
    index_file = job_folder() / "index.json"
    if dist.get_rank() == 0:
        print("building the index")
        build_index(index_file, text)
    return Snippets(index_file, text)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(11)
    text = torch.randint(0, 40, (2000,))
    data = prepare(text)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    net = nn.Sequential(nn.Embedding(40, 24), nn.Linear(24, 40))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for tokens, following in loader:
            logits = model(tokens)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
