"""Makes one rank of a run misbehave, as the file that INJECTION_FILE names says.

The file holds JSON: rank, what, moment, deadline_s. The time of the deed is written beside it.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

ALLREDUCE = "collectives/wrong-values"
BEFORE_INIT = "environment/version-mismatch"
CALL = 4
STEP = 1


def plan():
    try:
        return json.loads(Path(os.environ["INJECTION_FILE"]).read_text())
    except (OSError, ValueError):
        return None


def install(work):
    """Patch the module that holds the rank's work."""
    begin, join, rehearse = work.RankWork._begin, work.join_group, work.rehearse

    def _begin(self, what):
        begin(self, what)
        deed = mine(self)
        if deed and deed["moment"] == "before-init" and what == BEFORE_INIT:
            act(deed, self)
        if deed and deed["moment"] == "in-collective" and what == ALLREDUCE:
            replace_all_reduce(deed, self)

    def join_group(who, ctx):
        deed = plan()
        if deed and deed["rank"] == ctx.rank and deed["moment"] == "during-init":
            act(deed, Alone(ctx))
        return join(who, ctx)

    def rehearse_badly(live, steps, stream):
        from ddpcheck.engine import rehearsal

        deed = plan()
        train = rehearsal._train_step

        def step_badly(live, step, batch, stream):
            rank = dist.get_rank()
            if deed and deed["rank"] == rank and deed["moment"] == "in-rehearsal" and step == STEP:
                if deed["what"] in INSTEAD:
                    note()
                    INSTEAD[deed["what"]](dist.all_reduce, torch.ones(5, device=live.device))
                    return
                act(deed, Alone(None))
            train(live, step, batch, stream)

        rehearsal._train_step = step_badly
        try:
            rehearse(live, steps, stream)
        finally:
            rehearsal._train_step = train

    work.RankWork._begin = _begin
    work.join_group = join_group
    work.rehearse = rehearse_badly


def mine(rank_work):
    deed = plan()
    return deed if deed and deed["rank"] == rank_work.seat else None


class Alone:
    """What the deeds need of a rank where there is no RankWork at hand."""

    def __init__(self, ctx):
        self.context = ctx


def replace_all_reduce(deed, rank_work):
    real, calls = dist.all_reduce, 0

    def bad(tensor, *arguments, **named):
        nonlocal calls
        calls += 1
        if calls != CALL:
            return real(tensor, *arguments, **named)
        dist.all_reduce = real
        if deed["what"] in INSTEAD:
            note()
            INSTEAD[deed["what"]](real, tensor)
            return None
        act(deed, rank_work)
        return real(tensor, *arguments, **named)

    dist.all_reduce = bad


def gather_instead(_real, tensor):
    dist.all_gather([torch.empty_like(tensor) for _ in range(dist.get_world_size())], tensor)


INSTEAD = {
    "skip": lambda _real, _tensor: None,
    "other": gather_instead,
    "shape": lambda real, tensor: real(
        torch.ones(tensor.numel() + 50, dtype=tensor.dtype, device=tensor.device)
    ),
    "dtype": lambda real, tensor: real(
        torch.ones(tensor.numel(), dtype=torch.int8, device=tensor.device)
    ),
}


def act(deed, rank_work):
    note()
    DEEDS[deed["what"]](deed, rank_work)


def note():
    Path(os.environ["INJECTION_FILE"]).with_suffix(".at").write_text(str(time.time()))


def raise_it(_deed, _work):
    raise RuntimeError("the injected fault")


def spin(_deed, _work):
    while True:
        pass


def garble(_deed, _work):
    from ddpcheck.engine import channel

    tell = channel.Channel.tell

    def tell_garbage(self, key, entries):
        if "/" in key and key.split("/")[0] in {"environment", "collectives", "rehearsal"}:
            note()  # only now: until then the rank has done nothing wrong
            self._store.set(key, "\x00{ not what it should be")
            return
        tell(self, key, entries)

    channel.Channel.tell = tell_garbage


def fill(deed, _work):
    folder = Path(deed["report_dir"])
    with contextlib.suppress(OSError), (folder / "filler").open("wb") as filler:
        while True:
            filler.write(b"\0" * 4096)
            filler.flush()


def pause(deed, _work):
    # One that is no child of a rank: ranks are looked for among their launcher's descendants.
    subprocess.Popen(
        ["sh", "-c", f"sleep {deed['pause_s']}; kill -CONT {os.getpid()}"], start_new_session=True
    )
    os.kill(os.getpid(), signal.SIGSTOP)


DEEDS = {
    "raise": raise_it,
    "exit-0": lambda _deed, _work: sys.exit(0),
    "_exit-0": lambda _deed, _work: os._exit(0),
    "_exit-3": lambda _deed, _work: os._exit(3),
    "sigkill": lambda _deed, _work: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda _deed, _work: ctypes.string_at(0),
    "sigstop": lambda _deed, _work: os.kill(os.getpid(), signal.SIGSTOP),
    "pause": pause,
    "spin": spin,
    "hang-gil-held": lambda _deed, _work: ctypes.PyDLL(None).sleep(1000),
    "hang-gil-free": lambda _deed, _work: ctypes.CDLL(None).sleep(1000),
    "late": lambda deed, _work: time.sleep(deed["deadline_s"] + 1.5),
    "garbage": garble,
    "full-disk": fill,
    "lost-directory": lambda deed, _work: shutil.rmtree(deed["report_dir"], ignore_errors=True),
}
