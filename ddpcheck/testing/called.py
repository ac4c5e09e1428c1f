"""Runs one function of a file: ``python -m ddpcheck.testing.called FILE FUNCTION``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def main() -> None:
    """Import the file as a module of its own name, and call the function."""
    file, name = Path(sys.argv[1]), sys.argv[2]
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        sys.exit(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    getattr(module, name)()


if __name__ == "__main__":
    main()
