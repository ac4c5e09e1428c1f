"""Puts the injector into every rank, forked or started: Python imports this at its start."""

import importlib.abc
import importlib.machinery
import os
import sys
from types import ModuleType

PATCHED = "ddpcheck.engine.work"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module as always, and patches it once it is executed."""

    def find_spec(self, name, path=None, _target=None):
        if name != PATCHED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_patch(module: ModuleType) -> None:
            execute(module)
            import injector

            injector.install(module)

        spec.loader.exec_module = execute_and_patch
        return spec


if "INJECTION_FILE" in os.environ:
    sys.meta_path.insert(0, _Finder())
