"""Train a toy GPT-2 from scratch with the HF Trainer (char-level arithmetic corpus)."""
# steps: 30
# needs: transformers
# writes: files

import logging
import math
import os
import random
import sys
from dataclasses import dataclass, field
from typing import Optional

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    HfArgumentParser,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

logger = logging.getLogger(__name__)
VOCAB = "0123456789+-=; "
STOI = {c: i for i, c in enumerate(VOCAB)}


@dataclass
class ModelArguments:
    n_layer: int = field(default=2)
    n_head: int = field(default=2)
    n_embd: int = field(default=32)
    dropout: float = field(default=0.1)


@dataclass
class DataArguments:
    block_size: int = field(default=32, metadata={"help": "sequence length"})
    n_train: int = field(default=160)
    n_eval: int = field(default=42)
    max_eval_samples: Optional[int] = field(default=None)


class ArithmeticText(Dataset):
    """Packed character stream cut into equal blocks."""

    def __init__(self, blocks, block_size, seed):
        rng = random.Random(seed)
        text = ""
        while len(text) < blocks * block_size:
            a, b = rng.randint(0, 99), rng.randint(0, 99)
            text += f"{a}+{b}={a + b};" if rng.random() < 0.5 else f"{a}-{b}={a - b};"
        ids = torch.tensor([STOI[c] for c in text[: blocks * block_size]])
        self.blocks = ids.view(blocks, block_size)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        x = self.blocks[i]
        return {"input_ids": x, "labels": x.clone(), "attention_mask": torch.ones_like(x)}


class LossPrinter(TrainerCallback):
    def __init__(self):
        self.history = []

    def on_log(self, args, state, control, logs=None, **kw):
        if logs and "loss" in logs:
            self.history.append(float(logs["loss"]))
            if state.is_world_process_zero:
                print(f"step {state.global_step} loss {float(logs['loss']):.4f}", flush=True)


def compute_metrics(p):
    preds, labels = p.predictions[:, :-1], p.label_ids[:, 1:]
    return {"accuracy": float((preds == labels).mean()), "n": int(labels.shape[0])}


def preprocess_logits(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(-1)


def build_model(m: ModelArguments, d: DataArguments):
    cfg = GPT2Config(
        vocab_size=len(VOCAB),
        n_positions=d.block_size,
        n_embd=m.n_embd,
        n_layer=m.n_layer,
        n_head=m.n_head,
        resid_pdrop=m.dropout,
        embd_pdrop=m.dropout,
        attn_pdrop=m.dropout,
        bos_token_id=None,
        eos_token_id=None,
    )
    return GPT2LMHeadModel(cfg)


def main():
    torch.set_num_threads(1)
    parser = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
    argv = sys.argv[1:] or [
        "--output_dir",
        "hf_out",
        "--use_cpu",
        "True",
        "--per_device_train_batch_size",
        "4",
        "--per_device_eval_batch_size",
        "5",
        "--gradient_accumulation_steps",
        "2",
        "--num_train_epochs",
        "2",
        "--learning_rate",
        "3e-3",
        "--warmup_steps",
        "4",
        "--lr_scheduler_type",
        "cosine",
        "--logging_steps",
        "5",
        "--eval_strategy",
        "epoch",
        "--save_strategy",
        "epoch",
        "--save_total_limit",
        "2",
        "--load_best_model_at_end",
        "True",
        "--metric_for_best_model",
        "eval_loss",
        "--greater_is_better",
        "False",
        "--report_to",
        "none",
        "--disable_tqdm",
        "True",
        "--seed",
        "77",
        "--dataloader_num_workers",
        "0",
        "--ddp_backend",
        "gloo",
        "--ddp_find_unused_parameters",
        "False",
    ]
    margs, dargs, targs = parser.parse_args_into_dataclasses(argv)
    logging.basicConfig(level=logging.INFO if targs.should_log else logging.WARN)
    set_seed(targs.seed)

    train = ArithmeticText(dargs.n_train, dargs.block_size, seed=1)
    evals = ArithmeticText(dargs.n_eval, dargs.block_size, seed=2)
    if dargs.max_eval_samples:
        evals = torch.utils.data.Subset(evals, range(dargs.max_eval_samples))
    model = build_model(margs, dargs)
    logger.info("parameters: %d", sum(p.numel() for p in model.parameters()))

    printer = LossPrinter()
    trainer = Trainer(
        model=model,
        args=targs,
        train_dataset=train,
        eval_dataset=evals,
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=preprocess_logits,
        callbacks=[printer],
    )
    result = trainer.train()
    metrics = trainer.evaluate()
    trainer.save_model()
    if trainer.is_world_process_zero():
        print(
            "steps",
            result.global_step,
            "ppl",
            round(math.exp(metrics["eval_loss"]), 4),
            "acc",
            round(metrics["eval_accuracy"], 4),
            "n",
            metrics["eval_n"],
        )
        print("improved", bool(np.mean(printer.history[-2:]) < printer.history[0]))

    # continue one epoch from the last checkpoint
    last = max(
        (d for d in os.listdir(targs.output_dir) if d.startswith("checkpoint-")),
        key=lambda s: int(s.split("-")[1]),
    )
    targs.num_train_epochs = 3
    again = Trainer(
        model=build_model(margs, dargs),
        args=targs,
        train_dataset=train,
        eval_dataset=evals,
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=preprocess_logits,
        callbacks=[LossPrinter()],
    )
    res = again.train(resume_from_checkpoint=os.path.join(targs.output_dir, last))
    print(
        f"rank {targs.process_index} sum {sum(p.double().sum() for p in again.model.parameters()).item():.6f}",
        flush=True,
    )
    if again.is_world_process_zero():
        print("resumed to", res.global_step)


if __name__ == "__main__":
    main()
