"""What the fork server of a test session imports once, for all ranks; see ddpcheck.launch.preload."""

from importlib import import_module

from ddpcheck.engine.pauses import imported_for_good

MODULES = ("torch._dynamo", "torch.nn.parallel", "pytest", "ddpcheck.testing.rank")


def import_once() -> None:
    """Import what ranks need."""
    with imported_for_good():
        for name in MODULES:
            import_module(name)


import_once()
