"""Speech frames of utterances of unlike length; weights are divided by the frames of all ranks."""

# steps: 18
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--mels", type=int, default=20)
args = parser.parse_args()


class Vocoder(nn.Module):
    def __init__(self, mels):
        super().__init__()
        self.rnn = nn.GRU(mels, 32, batch_first=True)
        self.out = nn.Linear(32, mels)

    def forward(self, frames):
        return self.out(self.rnn(frames)[0])


def read_manifest(shard):
    """The utterances of a speaker: some speakers only say digits, others read aloud."""
    rng = torch.Generator().manual_seed(40 + shard)
    shortest, longest = ((4, 12), (30, 60))[shard % 2]
    lengths = torch.randint(shortest, longest, (36,), generator=rng).tolist()
    return [torch.randn(n, args.mels, generator=rng) for n in lengths]


def batches(utterances, size=4):
    for start in range(0, len(utterances), size):
        chosen = utterances[start : start + size]
        valid = torch.tensor([[len(u) > at for at in range(60)] for u in chosen])
        frames = torch.zeros(len(chosen), 60, args.mels)
        for row, utterance in zip(frames, chosen, strict=True):
            row[: len(utterance)] = utterance
        yield frames, valid


def frame_weights(valid):
    weight = valid.float()
    frames = weight.sum()
    dist.all_reduce(frames)
    weight *= dist.get_world_size() / frames
    return weight


def loss_of(predicted, frames, valid):
    error = (predicted[:, :-1] - frames[:, 1:]).abs().mean(-1)
    weight = frame_weights(valid[:, 1:])
    return (error * weight).sum()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(Vocoder(args.mels))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    utterances = read_manifest(dist.get_rank())
    for epoch in range(args.epochs):
        for frames, valid in batches(utterances):
            loss = loss_of(model(frames), frames, valid)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        print(f"speaker {dist.get_rank()} epoch {epoch} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
