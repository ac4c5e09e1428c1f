# steps: 30

# gradual unfreezing of a small text classifier (ULMFiT recipe), 1 more group of layers per "stage"
import json
import os

import torch
import torch.distributed as dist
import torch.nn as nn

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
HP = dict(vocab=200, dim=32, n_layers=3, seq=24, bs=16, steps_per_stage=8, stages=4, lr=2e-3)


class TextClassifier(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.embed = nn.Embedding(hp["vocab"], hp["dim"])
        enc = nn.TransformerEncoderLayer(
            hp["dim"], 4, 64, dropout=0.1, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(enc, hp["n_layers"], enable_nested_tensor=False)
        self.clf = nn.Sequential(nn.LayerNorm(hp["dim"]), nn.Linear(hp["dim"], 2))

    def layer_groups(self):
        "last group first"
        return [self.clf, *reversed(self.encoder.layers), self.embed]

    def forward(self, tok):
        return self.clf(self.encoder(self.embed(tok)).mean(1))


def freeze_to(net, n):
    """only the last n groups are trained"""
    for k, grp in enumerate(net.layer_groups()):
        for p in grp.parameters():
            p.requires_grad_(k < n)


def scale_groups(opt, n, base):
    """groups that are not open yet get lr 0"""
    for k, g in enumerate(opt.param_groups):
        g["lr"] = base if k < n else 0.0


def batch_for(step, hp):
    g = torch.Generator().manual_seed(1000 * step + RANK)
    tok = torch.randint(0, hp["vocab"], (hp["bs"], hp["seq"]), generator=g)
    y = (tok < 50).sum(1) > hp["seq"] // 4
    return tok, y.long()


@torch.no_grad()
def accuracy(net, hp, n=4):
    net.eval()
    hit = torch.zeros(2)
    for s in range(n):
        tok, y = batch_for(10_000 + s, hp)
        hit += torch.tensor([(net(tok).argmax(1) == y).sum().item(), len(y)])
    dist.all_reduce(hit)
    net.train()
    return (hit[0] / hit[1]).item()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = TextClassifier(HP)
    ddp = nn.parallel.DistributedDataParallel(net)
    opt = torch.optim.AdamW(
        [{"params": list(g.parameters())} for g in net.layer_groups()], lr=HP["lr"]
    )
    torch.manual_seed(1 + RANK)
    step, history = 0, []
    for stage in range(HP["stages"]):
        scale_groups(opt, stage + 1, HP["lr"] / (1 + stage))
        for _ in range(HP["steps_per_stage"]):
            tok, y = batch_for(step, HP)
            loss = nn.functional.cross_entropy(ddp(tok), y)
            loss.backward()
            opt.step()
            opt.zero_grad(set_to_none=True)
            step += 1
        history.append({"stage": stage, "loss": round(loss.item(), 4), "acc": accuracy(net, HP)})
        if RANK == 0:
            print(json.dumps(history[-1]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
