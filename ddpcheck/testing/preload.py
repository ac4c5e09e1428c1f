"""What the fork server of a test session imports once, for all ranks; see ddpcheck.launch.preload."""

import gc
from importlib import import_module

MODULES = ("torch._dynamo", "torch.nn.parallel", "pytest", "ddpcheck.testing.rank")


def import_once() -> None:
    """Import what ranks need, and keep it out of later garbage collections."""
    gc.disable()
    for name in MODULES:
        import_module(name)
    gc.freeze()
    gc.enable()


import_once()
