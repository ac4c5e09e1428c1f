"""Make the test's own process the only rank of a training."""

from datetime import timedelta
from pathlib import Path

import pytest
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from ddpcheck.launch.identity import Identity


def be_the_only_rank(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let ``train_rank`` find what a launcher would have set, and a store in ``folder``."""
    runs = 0

    def open_store(_who: Identity, _timeout: timedelta) -> Store:
        nonlocal runs
        runs += 1
        place = f"file://{folder}/store-{runs}?rank=0&world_size=1"
        store: Store = next(rendezvous(place))[0]
        return store

    monkeypatch.setattr("ddpcheck.train.rank.open_store", open_store)
    place = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "-", "MASTER_PORT": 1}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
