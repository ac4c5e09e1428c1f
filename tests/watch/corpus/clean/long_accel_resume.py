"""accelerate: gradient accumulation, gather_for_metrics, trackers off, save_state / load_state, resume mid-epoch."""
# steps: 30
# needs: accelerate, torchmetrics
# writes: files

import argparse
import os
import shutil

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, ProjectConfiguration, set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics.functional import accuracy


class SequencePairs(Dataset):
    """Is the reversed copy of the first half in the second half?"""

    def __init__(self, n, length=10, seed=0):
        g = torch.Generator().manual_seed(seed)
        half = length // 2
        a = torch.randint(1, 8, (n, half), generator=g)
        b = a.flip(1).clone()
        self.y = torch.randint(0, 2, (n,), generator=g)
        noise = torch.randint(1, 8, (n, half), generator=g)
        b[self.y == 0] = noise[self.y == 0]
        self.x = torch.cat([a, b], 1)

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Encoder(nn.Module):
    def __init__(self, d=24, heads=2, layers=2, length=10):
        super().__init__()
        self.tok = nn.Embedding(8, d)
        self.pos = nn.Parameter(torch.zeros(1, length, d))
        layer = nn.TransformerEncoderLayer(
            d, heads, 48, dropout=0.1, batch_first=True, norm_first=True
        )
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.cls = nn.Linear(d, 2)

    def forward(self, x):
        return self.cls(self.enc(self.tok(x) + self.pos).mean(1))


class TrainState:
    """custom object registered for checkpointing"""

    def __init__(self):
        self.epoch = 0
        self.best = 0.0

    def state_dict(self):
        return {"epoch": self.epoch, "best": self.best}

    def load_state_dict(self, sd):
        self.epoch, self.best = sd["epoch"], sd["best"]


def get_loaders(bs):
    train = DataLoader(SequencePairs(200, seed=1), batch_size=bs, shuffle=True, drop_last=True)
    valid = DataLoader(SequencePairs(53, seed=2), batch_size=bs, shuffle=False)
    return train, valid


def evaluate(acc, model, loader):
    model.eval()
    preds, refs = [], []
    for x, y in loader:
        with torch.no_grad():
            out = model(x)
        p, r = acc.gather_for_metrics((out.argmax(-1), y))
        preds.append(p)
        refs.append(r)
    preds, refs = torch.cat(preds), torch.cat(refs)
    model.train()
    return accuracy(preds, refs, task="multiclass", num_classes=2).item(), len(refs)


def run(args, resume=None):
    cfg = ProjectConfiguration(project_dir=args.out, automatic_checkpoint_naming=False)
    acc = Accelerator(
        cpu=True,
        gradient_accumulation_steps=args.accum,
        project_config=cfg,
        kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
    )
    set_seed(args.seed)
    train, valid = get_loaders(args.batch)
    model = Encoder()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    n_updates = args.epochs * (len(train) // acc.num_processes) // args.accum
    # the accelerate scheduler moves num_processes per step
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: max(0.05, 1.0 - s / (n_updates * acc.num_processes))
    )
    model, opt, train, valid, sched = acc.prepare(model, opt, train, valid, sched)
    state = TrainState()
    acc.register_for_checkpointing(state)

    if resume:
        acc.load_state(resume)
        acc.print(f"resumed from epoch {state.epoch}")
    criterion = nn.CrossEntropyLoss()
    step = 0
    for epoch in range(state.epoch, args.epochs):
        train.set_epoch(epoch)
        total = torch.zeros((), device=acc.device)
        for x, y in train:
            with acc.accumulate(model):
                loss = criterion(model(x), y)
                acc.backward(loss)
                if acc.sync_gradients:
                    acc.clip_grad_norm_(model.parameters(), 1.0)
                    step += 1
                opt.step()
                sched.step()
                opt.zero_grad()
            total += loss.detach()
        mean = acc.reduce(total, "mean").item() / len(train)
        score, n = evaluate(acc, model, valid)
        state.epoch = epoch + 1
        state.best = max(state.best, score)
        acc.print(
            f"epoch {epoch} loss {mean:.5f} acc {score:.4f} on {n} lr {sched.get_last_lr()[0]:.6f}"
        )
        acc.save_state(os.path.join(args.out, f"epoch_{epoch}"))
        if args.stop_after is not None and epoch + 1 == args.stop_after and not resume:
            acc.print("simulated preemption")
            break
    print(
        f"rank {acc.process_index} sum {sum(p.double().sum() for p in model.parameters()).item():.6f}",
        flush=True,
    )
    acc.wait_for_everyone()
    if acc.is_main_process:
        torch.save(acc.unwrap_model(model).state_dict(), os.path.join(args.out, "model.pt"))
    acc.wait_for_everyone()
    acc.print(f"updates {step} best {state.best:.4f}")
    acc.free_memory()
    return acc


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch", type=int, default=10)
    ap.add_argument("--accum", type=int, default=2)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=9)
    ap.add_argument("--stop_after", type=int, default=2)
    ap.add_argument("--out", default="accel_ckpt")
    args = ap.parse_args()
    torch.set_num_threads(1)
    run(args)
    acc = run(args, resume=os.path.join(args.out, "epoch_1"))
    acc.wait_for_everyone()
    if acc.is_local_main_process:
        shutil.rmtree(args.out)
    acc.end_training()


if __name__ == "__main__":
    main()
